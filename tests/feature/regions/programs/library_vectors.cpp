#include "feature.h"
#include <vector>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::vector<int> with, without;
  with.push_back(level);
  without.push_back(argc);
  if (with[0] > 3) // region {A=content}
    work(1);
  if (without[0] > 3)
    work(2);
  return 0;
}
