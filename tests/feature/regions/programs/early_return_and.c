// The rest of a function after an early return runs whatever the options of the condition are.
#include "feature.h"
#include <stdlib.h>

struct entry { int size, link; };

static struct entry *find(int option_a, int mode) {
  struct entry *made;
  if (option_a && mode != 4) // region {A}
    return NULL;
  made = malloc(sizeof *made);
  made->size = mode;
  made->link = 0;
  if (mode > 7)
    made->link = mode;
  return made;
}

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  struct entry *made = find(option_a, argc + 3);
  if (made->link)
    work(1);
  return 0;
}
