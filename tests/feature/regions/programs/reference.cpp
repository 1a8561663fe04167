#include "feature.h"

static void set(bool &into, bool value) { into = value; }
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  bool x = false, y = false;
  set(x, a);
  set(y, argc > 2);
  if (x) // region {A}
    work(1);
  if (y)
    work(2);
  return 0;
}
