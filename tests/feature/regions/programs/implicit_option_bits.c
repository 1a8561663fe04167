// A word of flags that is an option's own: bits of it that another option sets depend on that one, too.
#include "feature.h"

FEATURE(Word) static unsigned word;

int main(int argc, char **argv) {
  FEATURE(Other) int other = argc > 2;
  word = argc;
  if (other) { // region {Other}
    word |= 16;
    work(1);
  }
  if (word & 16) // region {Other,Word}
    work(2);
  if (word & 32) // region {Word}
    work(3);
  return 0;
}
