#include "feature.h"

static int same(int x) { return x; }
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (same(a)) // region {A}
    work(1);
  if (same(b)) // region {B}
    work(2);
  if (same(argc))
    work(3);
  return 0;
}
