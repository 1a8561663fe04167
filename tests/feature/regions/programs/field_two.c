#include "feature.h"

struct options {
  int fast, small;
};
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  struct options o;
  o.fast = a;
  o.small = argc;
  if (o.fast) // region {A}
    work(1);
  if (o.small)
    work(2);
  return 0;
}
