#include "feature.h"
#include <memory>

struct State {
  int level;
  int count;
};
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::unique_ptr<State> with(new State{level, argc});
  std::unique_ptr<State> without = std::unique_ptr<State>(new State{argc, argc});
  auto shared = std::make_shared<State>(), other = std::make_shared<State>();
  shared->level = level;
  other->level = argc;
  auto copy = shared;
  if (with->level > 3) // region {A}
    work(1);
  if (without->level > 3)
    work(2);
  if (with->count > 3)
    work(3);
  if (copy->level > 3) // region {A}
    work(4);
  if (other->level > 3)
    work(5);
  return 0;
}
