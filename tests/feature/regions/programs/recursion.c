#include "feature.h"

static int descend(int depth, int limit) {
  work(depth);
  if (depth < limit) // region {Depth}
    return descend(depth + 1, limit);
  return depth & 1;
}
int main(int argc, char **argv) {
  FEATURE(Depth) int limit = argc;
  descend(0, limit);
  return 0;
}
