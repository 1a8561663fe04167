#include "feature.h"

static void step(bool a, int n) {
  work(n);
  if (a) { // region {A}
    work(1);
    if (n > 2)
      throw n;
  }
}
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  FEATURE(B) bool b = argc > 2;
  try {
    step(a, argc);
  } catch (int code) {
    work(code);
    if (b) // region {B}
      work(3);
  }
  if (b) // region {B}
    work(2);
  return 0;
}
