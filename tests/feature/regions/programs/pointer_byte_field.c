// Bytes of what a feature's pointer leads to are the feature's only if they are its text.
#include "feature.h"
#include <stdbool.h>

struct codec {
  bool at_end;
  int id;
  bool quiet;
};
FEATURE(F) static struct codec *active;
static struct codec codecs[2];

__attribute__((noinline)) static void step(void) {
  if (active->at_end)
    work(1);
  if (active->quiet)
    work(2);
  if (active == &codecs[1]) // region {F}
    work(3);
}

int main(int argc, char **argv) {
  active = &codecs[argc > 2];
  active->at_end = argc > 3;
  active->quiet = argc > 4;
  step();
  return 0;
}
