#include "feature.h"
#include <list>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::list<int> levels;
  levels.push_back(level);
  levels.push_back(level + 1);
  for (auto i = levels.begin(); i != levels.end(); ++i)
    if (*i > 3) // region {A}
      work(1);
  return 0;
}
