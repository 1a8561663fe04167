// A walk over an array, one of whose places is a field, does not reach the next field.
#include "feature.h"

struct list {
  int one, level;
  int *begin, *end;
};

int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  struct list *l = malloc(sizeof *l);
  l->level = a;
  l->one = 3;
  l->begin = argv[0][0] ? &l->one : malloc(8 * sizeof *l->begin);
  l->end = l->begin + (argv[0][0] ? 1 : 8);
  for (int *p = l->begin; p < l->end; p++) {
    if (*p > 2)
      work(1);
  }
  if (l->level > 3) // region {A}
    work(2);
  return 0;
}
