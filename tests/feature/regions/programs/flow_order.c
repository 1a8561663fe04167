#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int x = argc;
  if (x > 2)
    work(2);
  x = a;
  if (x) // region {A}
    work(1);
  return 0;
}
