#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  int result = 0;
  if (b) { // region {B}
    work(1);
    if (argc > 6)
      goto out;
    work(2);
  }
  if (a) // region {A}
    work(3);
out:
  work(4);
  return result;
}
