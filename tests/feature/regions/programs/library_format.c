#include "feature.h"

#include <stdio.h>
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  char name[16], other[16];
  snprintf(name, sizeof name, "%d", level);
  snprintf(other, sizeof other, "%d", argc);
  if (strlen(name) > 1) // region {Level}
    work(1);
  if (strlen(other) > 1)
    work(2);
  return 0;
}
