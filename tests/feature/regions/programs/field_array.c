#include "feature.h"

static int table[4] = {1, 8, 32, 128};
static const struct {
  int good, lazy;
} config[3] = {{4, 4}, {8, 16}, {32, 258}};
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc & 3;
  int chain = table[level];
  int lazy = config[level].lazy;
  int fixed = table[argc & 1];
  for (int i = 0; i < chain; i++) // region {Level}
    work(i);
  if (lazy > 5) // region {Level}
    work(1);
  if (fixed > 4)
    work(2);
  return 0;
}
