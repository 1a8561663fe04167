#include "feature.h"

struct state {
  int level;
};
static struct state *make(int level) {
  struct state *s = malloc(sizeof *s);
  if (!s)
    exit(1);
  s->level = level;
  return s;
}
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  struct state *s = make(level), *t = make(argc);
  if (s->level > 3) // region {Level}
    work(1);
  if (t->level > 4)
    work(3);
  return 0;
}
