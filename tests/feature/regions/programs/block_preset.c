// A structure of constants that an option chooses carries the option.
#include "feature.h"

struct preset { int depth, lazy; };
static const struct preset best = {9, 1}, fast = {1, 0};

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  struct preset now;
  if (option_a) // region {A}
    now = best;
  else
    now = fast;
  if (now.lazy) // region {A}
    work(1);
  if (argc > 3)
    work(2);
  return 0;
}
