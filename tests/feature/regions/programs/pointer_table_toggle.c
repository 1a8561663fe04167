// Options that a table's pointers name: the new value of each depends on its own old one, not on those of the others.
#include "feature.h"

FEATURE(Quiet) static int quiet;
FEATURE(Squeeze) static int squeeze;
FEATURE(Chop) static int chop;
struct option {
  char letter;
  int *variable;
};
static struct option options[] = {{'q', &quiet}, {'s', &squeeze}, {'S', &chop}};

static int flipped(int value, int lower) {
  if (value == 0) // region {Chop,Quiet,Squeeze}
    return lower ? 1 : 2;
  return 0;
}

static void toggle(struct option *option, int how) {
  if (how == 1)
    *(option->variable) = !*(option->variable);
  else
    *(option->variable) = flipped(*(option->variable), how > 2);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    for (unsigned j = 0; j < 3; j++)
      if (argv[i][0] == options[j].letter)
        toggle(&options[j], argc);
  if (quiet) // region {Quiet}
    work(1);
  if (squeeze > 1) // region {Squeeze}
    work(2);
  if (chop) // region {Chop}
    work(3);
  return 0;
}
