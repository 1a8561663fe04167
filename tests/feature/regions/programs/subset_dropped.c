#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (a && b) { // region {A,B}
    work(1);
    if (a)
      work(2);
    if (argc > 7)
      work(3);
  }
  return 0;
}
