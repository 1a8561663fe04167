#include "../feature.h"
#include "shared.h"
struct options {
  int level, memory;
};

static void use(struct options *o, struct shared *s) {
  if (o->level > 3) // region {A}
    work(3);
  if (s->fast) // region {B}
    work(4);
}
void compress(int level, int fast) {
  struct options *o = malloc(sizeof *o);
  struct shared *s = malloc(sizeof *s);
  o->level = level;
  s->fast = fast;
  use(o, s);
}
