#include "feature.h"

static void step(int n) {
  work(n);
  if (n > 2)
    throw n;
}
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  if (a) { // region {A}
    try {
      step(argc);
    } catch (int code) {
      work(code);
    }
  }
  work(4);
  return 0;
}
