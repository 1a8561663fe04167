#include "feature.h"
// model: variable A files/options.c - fast
extern int fast;
int is_small(void);
int main(int argc, char **argv) {
  fast = argc > 1;
  if (fast) // region {A}
    work(1);
  if (is_small())
    work(2);
  return 0;
}
