#include "feature.h"

struct stream {
  unsigned verify : 1, other : 1;
};
static unsigned flags;
static void use(struct stream *s) {
  if (s->verify) // region {A}
    work(1);
  if (flags & 12) // region {A,B}
    work(2);
}
int main(int argc, char **argv) {
  FEATURE(A) int small = argc > 1;
  FEATURE(B) int large = argc > 2;
  struct stream *s = calloc(1, sizeof *s);
  unsigned local = argc;
  if (small) { // region {A}
    s->verify = 1;
    flags |= 4;
    local |= 1;
  }
  if (large) { // region {B}
    flags |= 8;
    local |= 2;
  }
  use(s);
  if (local & 3) // region {A,B}
    work(3);
  return 0;
}
