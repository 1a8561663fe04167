#include "feature.h"

struct state {
  int level, used;
  struct state *next;
};
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  struct state *s = malloc(sizeof *s), *t = malloc(sizeof *t);
  s->level = level;
  s->used = argc;
  s->next = t;
  t->level = 3 + argc;
  t->next = 0;
  if (s->level > 3) // region {Level}
    work(1);
  if (s->used)
    work(2);
  if (s->next->level > 4)
    work(3);
  return 0;
}
