#include "feature.h"

struct options {
  char name[16];
  int level;
};
struct result {
  char text[16];
  int count;
};
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  struct options options;
  struct result result;
  strcpy(options.name, argv[0]);
  options.level = level;
  strcpy(result.text, options.name);
  result.count = argc;
  if (result.count > 2)
    work(1);
  if (options.level > 2) // region {A}
    work(2);
  return 0;
}
