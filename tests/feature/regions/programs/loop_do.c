#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(N) int n = argc;
  int i = 0;
  do {
    work(i);
    i++;
  } while (i < n); // region {N}
  return 0;
}
