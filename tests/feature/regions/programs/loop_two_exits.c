#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  for (int i = 0; i < argc; i++) {
    if (a && i > 3) // region {A}
      break;
    work(i);
    if (b && i > 5) // region {B}
      break;
  }
  work(9);
  return 0;
}
