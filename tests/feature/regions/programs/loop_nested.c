#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(N) int n = argc;
  FEATURE(M) int m = argc + 1;
  for (int i = 0; i < n; i++) { // region {N}
    work(1);
    for (int j = 0; j < m; j++) // region {M}
      work(2);
  }
  return 0;
}
