#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int x = a;
  if (x) // region {A}
    work(1);
  x = argc;
  if (x > 2)
    work(2);
  return 0;
}
