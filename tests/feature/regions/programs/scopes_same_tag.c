// Structures of one tag in two functions.
#include "feature.h"
// model: member A options level

static void draw(int count) {
  struct options {
    int width, height;
    char *name;
  } *o = malloc(sizeof *o);
  o->width = count;
  o->height = count;
  o->name = 0;
  if (o->width > 3)
    work(1);
  if (o->height > 3)
    work(2);
  if (o->name)
    work(3);
}
static void compress(int level) {
  struct options {
    int memory, level, rest;
  } *o = malloc(sizeof *o);
  o->level = level;
  o->memory = o->rest = 2;
  if (o->level > 3) // region {A}
    work(4);
}
int main(int argc, char **argv) {
  draw(argc);
  compress(argc);
  return 0;
}
