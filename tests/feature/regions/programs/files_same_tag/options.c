#include "../feature.h"
// model: member A options level
// model: member B settings quick
// model: member C chosen verbose
struct options {
  int level, memory;
};
struct settings {
  long rest;
  int quick;
};
static struct {
  int verbose, other;
} chosen;

static void use(struct options *o, struct settings *s) {
  if (o->level > 3) // region {A}
    work(5);
  if (s->quick) // region {B}
    work(6);
}
void compress(int level, int quick) {
  struct options *o = malloc(sizeof *o);
  struct settings *s = malloc(sizeof *s);
  o->level = level;
  s->quick = quick;
  use(o, s);
}
int mode(int verbose) {
  chosen.verbose = verbose > 1;
  chosen.other = verbose;
  if (chosen.verbose) // region {C}
    work(7);
  return chosen.other;
}
