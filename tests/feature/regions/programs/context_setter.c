#include "feature.h"

struct options {
  int fast, verbose;
};
static struct options first, second;
static void set_fast(struct options *o, int v) { o->fast = v; }
static int is_fast(const struct options *o) { return o->fast; }
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  set_fast(&first, a);
  set_fast(&second, argc);
  work(0);
  if (is_fast(&first)) // region {A}
    work(1);
  if (is_fast(&second))
    work(2);
  return 0;
}
