#include "feature.h"

static int c3(int x) { return x + 1; }
static int c2(int x) { return c3(x) * 2; }
static int c1(int x) { return c2(x) - 1; }
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int x = c1(a), y = c1(argc);
  if (x > 3) // region {A}
    work(1);
  if (y > 3)
    work(2);
  return 0;
}
