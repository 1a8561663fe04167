#include "feature.h"

static __attribute__((noreturn)) void fail(int code) {
  work(code);
  exit(code);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  if (a) { // region {A}
    if (argc > 4)
      fail(3);
    work(1);
  }
  if (b) // region {B}
    work(2);
  return 0;
}
