#include "feature.h"
static int level;
void one(int n) {
  level = n;
  work(0);
  if (level > 3) // region {A}
    work(1);
}
