#include "feature.h"

// model: member A flags fast
// model: member B flags small
struct flags {
  unsigned fast : 1, small : 1, level : 4, rest : 2;
};
static void use(struct flags *f) {
  if (f->fast) // region {A}
    work(1);
  if (f->small) // region {B}
    work(2);
  if (f->level > 3)
    work(3);
}
int main(int argc, char **argv) {
  struct flags f = {argc > 1, argc > 2, argc, 0};
  use(&f);
  return 0;
}
