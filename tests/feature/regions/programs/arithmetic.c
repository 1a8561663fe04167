#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  unsigned size = 1u << (level + 4);
  double ratio = size * 0.5;
  int untouched = argc * 3;
  if (ratio > 10.0) // region {Level}
    work(1);
  if (untouched > 10)
    work(2);
  return 0;
}
