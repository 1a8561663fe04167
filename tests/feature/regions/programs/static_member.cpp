#include "feature.h"

// model: member A Config fast
class Config {
public:
  static bool fast, small;
};
bool Config::fast = false, Config::small = false;
int main(int argc, char **argv) {
  Config::fast = argc > 1;
  Config::small = argc > 2;
  work(0);
  if (Config::fast) // region {A}
    work(1);
  if (Config::small)
    work(2);
  return 0;
}
