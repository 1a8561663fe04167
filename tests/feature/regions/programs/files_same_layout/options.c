#include "../feature.h"
// model: member A options level
struct options {
  int level, memory;
};
struct encoder {
  struct options options;
  int used;
};
static struct encoder encoder;

static void use(struct options *o) {
  if (o->level > 3) // region {A}
    work(1);
}
void compress(int level, int memory) {
  struct options *o = malloc(sizeof *o);
  o->level = level;
  o->memory = memory;
  use(o);
  encoder.options.level = level;
  encoder.used = memory;
  if (encoder.options.level > 4) // region {A}
    work(2);
  if (encoder.used)
    work(3);
}
