#include "feature.h"

// model: member A Settings fast
namespace {
struct Settings {
  bool small;
  bool fast;
};
void run(const Settings &o) {
  if (o.fast) // region {A}
    work(1);
  if (o.small)
    work(2);
}
} // namespace
int main(int argc, char **argv) {
  Settings o{argc > 1, argc > 2};
  run(o);
  return 0;
}
