#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  if (a) // region {A}
    work(1);
  else
    work(2);
  work(3);
  return 0;
}
