#include "feature.h"

struct options {
  int fast, small, more[8];
};
static struct options defaults;
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  struct options o;
  defaults.fast = a;
  defaults.small = argc;
  memcpy(&o, &defaults, sizeof o);
  if (o.fast) // region {A}
    work(1);
  if (o.small)
    work(2);
  return 0;
}
