#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int b = argc > 2;
  int *p = &a, *q = &b;
  if (*p) // region {A}
    work(1);
  if (*q)
    work(2);
  return 0;
}
