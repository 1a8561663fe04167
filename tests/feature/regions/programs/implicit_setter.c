#include "feature.h"

struct options {
  int fast, other;
};
void keep(struct options *o);
static void set_fast(struct options *o) { o->fast = 1; }
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  struct options o = {0};
  keep(&o);
  if (a) // region {A}
    set_fast(&o);
  if (o.fast) // region {A}
    work(1);
  if (o.other)
    work(2);
  return 0;
}
