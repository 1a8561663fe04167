#include "feature.h"

static int method = 1;
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  if (a) // region {A}
    method = 2;
  work(0);
  if (method == 2) // region {A}
    work(1);
  return 0;
}
