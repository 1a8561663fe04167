#include "feature.h"

// model: variable A reference_variable.cpp run:level
// model: variable B reference_variable.cpp run:verbose
// model: variable C reference_variable.cpp take:mode
struct Settings {
  bool verbose;
  int other;
};
struct Mode {
  int kind;
  Mode(int k) : kind(k) {}
  Mode(const Mode &from) : kind(from.kind) {}
  ~Mode() { work(8); }
};
static void run(const int &level, Settings &settings, int again) {
  if (again)
    run(level, settings, again - 1);
  bool &verbose = settings.verbose;
  if (level > 3) // region {A}
    work(1);
  if (verbose) // region {B}
    work(2);
  if (settings.other)
    work(3);
}
static void take(Mode mode, int other) {
  if (mode.kind > 1) // region {C}
    work(4);
  if (other)
    work(5);
}
int main(int argc, char **argv) {
  Settings settings = {argc > 1, argc > 2};
  int level = argc;
  run(level, settings, argc);
  take(Mode(argc), argc);
  return 0;
}
