#include "feature.h"

static int option, count;
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  option = a + 1;
  count = argc;
  work(1);
  if (option > 1) // region {A}
    work(1);
  if (count > 1)
    work(2);
  return 0;
}
