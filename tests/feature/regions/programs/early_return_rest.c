#include "feature.h"

static int mode, other;
static void choose(int a) {
  if (a) { // region {A}
    mode = 2;
    return;
  }
  other = 1;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  choose(a);
  if (mode == 2) // region {A}
    work(1);
  if (other)
    work(2);
  return 0;
}
