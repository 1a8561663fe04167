#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (a) // region {A}
    work(1);
  if (a && b) // region {A,B}
    work(4);
  if (b) { // region {B}
    work(1);
    if (a) // region {A}
      work(1);
  }
  return 0;
}
