#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (a) // region {A}
    work(1);
  else if (b) // region {B}
    work(2);
  else if (argc > 3)
    work(3);
  return 0;
}
