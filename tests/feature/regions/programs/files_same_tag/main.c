// Structures of one tag, and some without any, are others in each file.
#include "../feature.h"
struct options {
  int width, height;
};
struct settings {
  long size;
  int depth, fast;
};
static struct {
  int here, there;
} state;
extern void compress(int level, int fast);
extern int mode(int verbose);

static void draw(struct options *o) {
  if (o->width > 3)
    work(1);
}
static void resize(struct settings *s) {
  if (s->depth > 3)
    work(2);
  if (s->fast)
    work(3);
}
int main(int argc, char **argv) {
  struct options *o = malloc(sizeof *o);
  struct settings *s = malloc(sizeof *s);
  o->width = argc;
  o->height = 2;
  s->depth = s->fast = argc;
  state.here = argc;
  draw(o);
  resize(s);
  if (state.here > 4)
    work(4);
  compress(argc, 2);
  return mode(argc);
}
