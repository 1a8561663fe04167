#include "feature.h"

// model: member A flags fast
// model: member B flags form
// model: member C flags level
enum form { plain, packed };
struct flags {
  unsigned fast : 1, other : 1;
  unsigned level : 4, mode : 4;
  unsigned : 0;
  enum form form : 8;
};
struct context {
  int kind;
  struct flags inside, *pointed;
};
static struct flags *global;
static void embedded(struct context *c) {
  if (c->inside.fast) // region {A}
    work(1);
  if (c->inside.other)
    work(2);
}
static void pointed(struct context *c) {
  if (c->pointed->fast) // region {A}
    work(3);
  if (c->pointed->form == packed) // region {B}
    work(4);
}
static void listed(struct flags **list) {
  if (list[1]->fast) // region {A}
    work(11);
  if ((*list)->other)
    work(12);
}
static void indexed(struct flags *flags, int i) {
  if (flags[i].fast) // region {A}
    work(5);
  if (flags[i].other)
    work(6);
}
// model: member D packet length
struct packet {
  unsigned length : 4, mode : 4;
};
static void write(struct packet *packet, int mode) {
  packet->mode = mode;
  if (packet->mode > 2)
    work(7);
  if (packet->length > 2) // region {D}
    work(8);
}
int main(int argc, char **argv) {
  struct flags *flags = calloc(argc, sizeof *flags);
  struct context c = {argc, {argc > 1, argc > 2}, flags};
  global = flags;
  if (global->fast) // region {A}
    work(9);
  if (global->form) // region {B}
    work(10);
  embedded(&c);
  listed(&c.pointed);
  pointed(&c);
  indexed(flags, argc);
  write(calloc(1, sizeof(struct packet)), argc);
  return 0;
}
