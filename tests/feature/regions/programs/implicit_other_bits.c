// A bit that an option sets tells nothing of the other bits of the word.
#include "feature.h"

enum { KEEP = 1, QUIET = 2, LONG = 4, FAILED = 8 };
struct state {
  unsigned flags, count;
};

static int isLong(const struct state *s) { return (s->flags & LONG) != 0; }

int main(int argc, char **argv) {
  FEATURE(Keep) int keep = argc > 1;
  FEATURE(Quiet) int quiet = argc > 2;
  struct state *s = calloc(1, sizeof *s);
  if (keep) // region {Keep}
    s->flags |= KEEP;
  if (quiet) // region {Quiet}
    s->flags &= ~QUIET;
  if (argv[0][0] == 'l')
    s->flags |= LONG;
  if (argv[0][0] == 'f')
    s->flags |= FAILED;
  if (s->flags & KEEP) // region {Keep}
    work(1);
  if (s->flags & QUIET) // region {Quiet}
    work(2);
  if (s->flags & (KEEP | FAILED)) // region {Keep}
    work(3);
  if (isLong(s))
    work(4);
  if (s->flags & FAILED)
    work(5);
  if (s->flags) // region {Keep,Quiet}
    work(6);
  unsigned copy = s->flags << 1;
  if (copy & (KEEP << 1)) // region {Keep,Quiet}
    work(7);
  unsigned long syntax = keep ? 0x1101 : 0x2100;
  switch (quiet) { // region {Quiet}
  case 0:
    syntax |= 0x10000;
    break;
  case 1:
    syntax &= ~0x20000ul;
    if (argv[0][0] == 'g')
      syntax |= 0x40000;
    break;
  }
  if (syntax & 0x1000) // region {Keep}
    work(9);
  if (syntax & 0x20000) // region {Quiet}
    work(10);
  if (syntax & 0x80100)
    work(11);
  unsigned other = s->flags & ~KEEP;
  if (other) // region {Quiet}
    work(8);
  return 0;
}
