// Ways out of a scope are a switch of the compiler's, which is no region.
#include "feature.h"

__attribute__((noinline)) static int search(int option_a, int count) {
  for (int i = 0; i < count; i++) {
    work(1);
    if (option_a) // region {A}
      return i;
    work(2);
  }
  work(3);
  return -1;
}

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  return search(option_a, argc);
}
