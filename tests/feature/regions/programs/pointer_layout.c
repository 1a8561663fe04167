// State behind untyped pointers: each function takes the memory for a structure of its own.
#include "feature.h"

struct packer {
  char *name;
  int level;
};
struct counter {
  long total;
  int turns;
};
struct common {
  char *name;
  int level;
};
struct stage {
  void *state;
  void (*run)(void *state);
};

static void pack(void *state) {
  struct packer *p = state;
  work(1);
  if (p->level > 3) // region {A}
    work(2);
}
static void count(void *state) {
  struct counter *c = state;
  work(1);
  c->total++;
  if (c->turns > 3)
    work(3);
}
// The fields before it are the same, so this may be a packer.
static void head(void *state) {
  struct common *c = state;
  work(1);
  if (c->level > 5) // region {A}
    work(4);
}

int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  struct stage stages[4];
  struct packer *p = malloc(sizeof *p);
  p->name = argv[0];
  p->level = a;
  struct counter *c = malloc(sizeof *c);
  c->total = 0;
  c->turns = rand();
  stages[0].state = p;
  stages[0].run = pack;
  stages[1].state = c;
  stages[1].run = count;
  stages[2].state = p;
  stages[2].run = head;
  for (int i = 0; i < 3; i++)
    stages[i].run(stages[i].state);
  return 0;
}
