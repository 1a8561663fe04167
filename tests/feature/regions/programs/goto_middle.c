#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  if (argc > 4)
    goto middle;
  if (a) { // region {A}
    work(1);
  middle:
    work(2);
  }
  work(3);
  return 0;
}
