#include "feature.h"

static int odd(int n, int a);
static int even(int n, int a) {
  work(n);
  if (a) // region {A}
    work(1);
  return n == 0 ? 1 : odd(n - 1, a);
}
static int odd(int n, int a) {
  work(n);
  return n == 0 ? 0 : even(n - 1, a);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  even(argc, a);
  return 0;
}
