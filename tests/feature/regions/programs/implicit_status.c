#include "feature.h"

static int step(int n) {
  work(n);
  return n > 3 ? -1 : 0;
}
static int run(int a, int b, int n) {
  int result = 0;
  if (a) { // region {A}
    if (step(n) < 0)
      return -1;
  }
  if (b) { // region {B}
    if (step(n + 1) < 0)
      return -1;
  }
  return result;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (run(a, b, argc) < 0)
    work(1);
  return 0;
}
