#include "feature.h"

// model: variable Level parameter.c pack:level
static void pack(int n, int level) {
  work(n);
  if (level > 3) // region {Level}
    work(1);
  if (n > 3)
    work(2);
}
int main(int argc, char **argv) {
  pack(argc, argc + 1);
  return 0;
}
