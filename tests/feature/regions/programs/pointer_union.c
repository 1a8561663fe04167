// What lies in a union or in bytes is any of the structures that it is taken for.
#include "feature.h"

struct fast {
  char *table;
  int level;
};
struct small {
  long size;
  int level;
};
struct coder {
  int kind;
  union {
    struct fast fast;
    struct small small;
  } as;
};
static char space[64] __attribute__((aligned(8)));

static void useFast(struct fast *f) {
  work(0);
  if (f->level > 1) // region {A}
    work(1);
}
static void useSmall(struct small *s) {
  work(0);
  if (s->level > 2) // region {A}
    work(2);
}
static void useSpace(struct small *s) {
  work(0);
  if (s->level > 3) // region {B}
    work(3);
}

int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  FEATURE(B) int b = argc;
  struct coder *c = malloc(sizeof *c);
  c->kind = 1;
  if (argv[argc - 1]) {
    c->as.fast.table = argv[0];
    c->as.fast.level = a;
  } else {
    c->as.small.size = 0;
    c->as.small.level = a;
  }
  useFast(&c->as.fast);
  useSmall(&c->as.small);
  struct small *s = (struct small *)space;
  s->level = b;
  useSpace(s);
  return 0;
}
