// The end of a container is no node of it: what lies behind the container is not its element.
#include "feature.h"
#include <map>

struct State {
  std::map<int, long> names;
  FEATURE(Level) long level;
};

int main(int argc, char **argv) {
  State state;
  state.level = argc;
  for (int i = 1; i < argc; ++i)
    state.names[i] = atol(argv[i]);
  auto found = state.names.find(3);
  if (found->second > 3)
    work(1);
  if (state.level > 3) // region {Level}
    work(2);
  return 0;
}
