#include "feature.h"

enum class Mode { Fast, Small, Off };
static Mode parse(int n) { return n > 2 ? Mode::Fast : n > 1 ? Mode::Small : Mode::Off; }
int main(int argc, char **argv) {
  FEATURE(Kind) Mode mode = parse(argc);
  switch (mode) { // region {Kind}
  case Mode::Fast:
    work(1);
    break;
  case Mode::Small:
    work(2);
    break;
  case Mode::Off:
    break;
  }
  return 0;
}
