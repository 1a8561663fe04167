#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(Mode) const char *mode = argc > 1 ? argv[1] : "x";
  const char *other = argv[0];
  int level = atoi(mode);
  if (strcmp(mode, "fast") == 0) // region {Mode}
    work(1);
  if (strcmp(other, "fast") == 0)
    work(2);
  for (int i = 0; i < level; i++) // region {Mode}
    work(i);
  if (mode[0] == 'q') // region {Mode}
    work(3);
  return 0;
}
