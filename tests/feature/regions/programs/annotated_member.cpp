#include "feature.h"

struct Options {
  FEATURE(A) bool fast;
  bool small;
};
static void run(const Options &o) {
  if (o.fast) // region {A}
    work(1);
  if (o.small)
    work(2);
}
int main(int argc, char **argv) {
  Options o{argc > 1, argc > 2};
  run(o);
  return 0;
}
