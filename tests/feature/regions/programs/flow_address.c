#include "feature.h"

static void read_value(int *into, int value) { *into = value; }
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int x, y;
  read_value(&x, a);
  read_value(&y, argc);
  if (x) // region {A}
    work(1);
  if (y)
    work(2);
  return 0;
}
