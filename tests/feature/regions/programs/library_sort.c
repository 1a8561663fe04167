#include "feature.h"

static int reverse;
static int compare(const void *x, const void *y) {
  int difference = *(const int *)x - *(const int *)y;
  if (reverse) // region {Reverse}
    return -difference;
  return difference;
}
int main(int argc, char **argv) {
  FEATURE(Reverse) int wanted = argc > 1;
  int numbers[3] = {3, 1, argc};
  reverse = wanted;
  qsort(numbers, 3, sizeof *numbers, compare);
  work(numbers[0]);
  return 0;
}
