#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  FEATURE(C) int c = argc > 3;
  if ((a && b) || c) // region {A,B,C}
    work(1);
  if (argc > 4 && a) // region {A}
    work(2);
  else
    work(3);
  if (!(b || c)) // region {B,C}
    work(4);
  return 0;
}
