#include "feature.h"

static int pack(int a, int n) {
  if (a) // region {A}
    return 1;
  work(n);
  return 0;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  pack(a, argc);
  return 0;
}
