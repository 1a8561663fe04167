#include "feature.h"
int fast;
static int small;
int is_small(void) {
  work(0);
  if (fast) // region {A}
    work(3);
  return small;
}
