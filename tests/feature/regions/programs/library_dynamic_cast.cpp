#include "feature.h"

struct Base {
  virtual ~Base() {}
};
struct Options : Base {
  int level = 0, other = 0;
};
static void use(Base *base) {
  if (Options *options = dynamic_cast<Options *>(base)) {
    if (options->level > 1) // region {A}
      work(1);
    if (options->other)
      work(2);
  }
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  Options *options = new Options;
  options->level = level;
  options->other = argc > 3;
  use(options);
  return 0;
}
