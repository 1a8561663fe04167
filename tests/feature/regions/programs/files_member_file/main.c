// A file says which structure of the name is meant.
#include "../feature.h"
#include "shared.h"
// model: member A options level files_member_file/options.c
// model: member B shared fast options.c
struct options {
  int level, memory;
};
extern void compress(int level, int fast);

static void draw(struct options *o) {
  if (o->level > 3)
    work(1);
}
int main(int argc, char **argv) {
  struct options *o = malloc(sizeof *o);
  struct shared *s = malloc(sizeof *s);
  o->level = argc;
  s->fast = argc > 1;
  draw(o);
  if (s->fast) // region {B}
    work(2);
  compress(argc, 2);
  return 0;
}
