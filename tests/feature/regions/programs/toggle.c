// A truth value that is turned round under an option's branch.
#include "feature.h"
#include <stdbool.h>

int main(int argc, char **argv) {
  FEATURE(Both) int both = argc > 2;
  bool forward = true;
  for (int i = 0; i < argc; ++i) {
    if (forward) // region {Both}
      work(1);
    if (both) { // region {Both}
      forward = !forward;
      work(2);
    }
  }
  return 0;
}
