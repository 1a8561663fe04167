// Fields of a class template's instances, and of its base classes.
#include "feature.h"
// model: member Level Options level
// model: member Base Derived common

struct Common { int common, other; };
struct Derived : Common { int own; };
template <class Number> struct Options { int verbose; Number level; };

static Options<int> chosen;
static Derived derived;

int main(int argc, char **argv) {
  chosen.level = argc > 1;
  chosen.verbose = argc > 2;
  derived.common = argc > 3;
  derived.other = argc > 4;
  if (chosen.level) // region {Level}
    work(1);
  if (chosen.verbose)
    work(2);
  if (derived.common) // region {Base}
    work(3);
  if (derived.other)
    work(4);
  return 0;
}
