#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int i = 0;
  while (i < argc && a) { // region {A}
    work(i);
    i++;
  }
  return 0;
}
