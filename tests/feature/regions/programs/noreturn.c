#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  if (a) { // region {A}
    work(1);
    exit(1);
  }
  work(2);
  if (argc > 3)
    work(3);
  return 0;
}
