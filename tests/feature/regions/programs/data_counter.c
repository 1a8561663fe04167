// What a branch on an option sets back and others count is a count; a count down from an option's number tells it.
#include "feature.h"

extern int data(int);

static int lines, slots;

int main(int argc, char **argv) {
  FEATURE(Reset) int reset = argc > 2;
  FEATURE(Workers) int workers = argc;
  for (int i = 0; i < data(0); ++i) {
    ++lines;
    if (reset) { // region {Reset}
      lines = 0;
      work(1);
    }
    if (lines > 50)
      work(2);
  }
  slots = workers;
  while (data(1)) {
    --slots;
    if (slots == 0) // region {Workers}
      work(3);
  }
  return 0;
}
