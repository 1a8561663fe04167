// A structure without a name is called as the variable that has it.
#include "feature.h"
// model: member Fast chosen fast

static struct { int fast, other; } chosen;

int main(int argc, char **argv) {
  chosen.fast = argc > 1;
  chosen.other = argc > 2;
  if (chosen.fast) // region {Fast}
    work(1);
  if (chosen.other)
    work(2);
  return 0;
}
