#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(N) int n = argc;
  int i, sum = 0;
  for (i = 0; i < n; i++) // region {N}
    sum += i;
  if (sum > 10)
    work(1);
  return 0;
}
