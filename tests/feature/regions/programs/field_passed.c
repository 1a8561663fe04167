#include "feature.h"

struct options {
  int fast, small;
  char name[8];
};
static void fill(struct options *o, int a, int n) {
  work(0);
  o->fast = a;
  o->small = n;
  for (int i = 0; i < 7; i++)
    o->name[i] = 'x';
  work(0);
}
static void use(const struct options *o) {
  work(0);
  if (o->fast) // region {A}
    work(1);
  if (o->small)
    work(2);
  if (o->name[0] == 'y')
    work(3);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  struct options o;
  fill(&o, a, argc);
  use(&o);
  return 0;
}
