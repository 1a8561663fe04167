#include "feature.h"

__attribute__((target_clones("avx2", "default"))) void process(int level, int other) {
  if (level > 3) // region {A}, region {A}
    work(1);
  if (other)
    work(2);
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  process(level, argv[0][0]);
  return 0;
}
