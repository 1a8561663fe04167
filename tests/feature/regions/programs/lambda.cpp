#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  int n = argc;
  auto run = [&] {
    if (a) // region {A}
      work(1);
    if (n > 3)
      work(2);
  };
  run();
  return 0;
}
