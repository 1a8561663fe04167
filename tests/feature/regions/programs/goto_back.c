#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(N) int n = argc;
  int i = 0;
again:
  work(i);
  i++;
  if (i < n) // region {N}
    goto again;
  work(9);
  return 0;
}
