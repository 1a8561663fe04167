// A local array of constants is a table: what is read there depends on the index.
#include "feature.h"

static void first(void) { work(1); }
static void second(void) { work(2); }

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  void (*const table[2])(void) = {first, second};
  int limits[4] = {1, 5, 9, 13};
  table[option_a](); // region {A}
  if (limits[option_a] > 2) // region {A}
    work(3);
  if (limits[argc & 3] > 2)
    work(4);
  return 0;
}
