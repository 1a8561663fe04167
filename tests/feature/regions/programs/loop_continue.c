#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  for (int i = 0; i < argc; i++) {
    work(i);
    if (a) // region {A}
      continue;
    work(2);
  }
  return 0;
}
