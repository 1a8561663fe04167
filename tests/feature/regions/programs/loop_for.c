#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(N) int n = argc;
  for (int i = 0; i < n; i++) // region {N}
    work(i);
  for (int i = 0; i < argc; i++)
    work(i);
  return 0;
}
