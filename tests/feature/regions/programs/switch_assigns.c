#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  int depth, other = argc;
  switch (level) { // region {Level}
  case 1:
    depth = 4;
    break;
  case 2:
    depth = 16;
    break;
  default:
    depth = 64;
  }
  for (int i = 0; i < depth; i++) // region {Level}
    work(i);
  for (int i = 0; i < other; i++)
    work(i);
  return 0;
}
