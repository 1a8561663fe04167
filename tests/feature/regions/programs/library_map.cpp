#include "feature.h"
#include <map>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::map<int, int> levels;
  levels.emplace(argc, level);
  for (auto i = levels.begin(); i != levels.end(); ++i) {
    if (i->second > 3) // region {A}
      work(1);
    if (i->first > 3)
      work(2);
  }
  return 0;
}
