#include "feature.h"

static void fill(int *values, int n, int level) {
  for (int i = 0; i < n; i++)
    values[i] = i == 2 ? level : 1;
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  struct pair {
    int option, other;
  } *pairs = __builtin_alloca(argc * sizeof *pairs);
  int count = argc + 2;
  int values[count];
  fill(values, count, level);
  pairs[1].option = level;
  pairs[1].other = argc;
  if (pairs[argc].option > 2) // region {A=direct}
    work(1);
  if (pairs[argc].other > 2)
    work(2);
  if (values[2] > 3) // region {A=content}
    work(3);
  return 0;
}
