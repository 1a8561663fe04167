// Structures of the same fields are one type to the link.
#include "../feature.h"
struct window {
  int width, height;
};
struct pair {
  struct window window;
  int rest;
};
extern void compress(int level, int memory);
static struct window screen;
static struct pair both;

static void draw(struct window *w) {
  if (w->width > 3)
    work(1);
}
int main(int argc, char **argv) {
  struct window *w = malloc(sizeof *w);
  w->width = argc;
  w->height = 2;
  draw(w);
  draw(&screen);
  screen.width = argc;
  both.window.width = argc;
  if (screen.width > 4)
    work(2);
  if (both.window.width > 5)
    work(3);
  compress(argc, 2);
  return 0;
}
