#include "feature.h"
static int level;
void two(int n) {
  level = n;
  work(0);
  if (level > 3) // region {B}
    work(1);
}
