#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int level = a ? 9 : 1;
  int chosen = argc > 7 ? 3 : 4;
  if (level > 5) // region {A}
    work(1);
  if (chosen == 3)
    work(2);
  return 0;
}
