#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  switch (level) { // region {Level}
  case 1:
    work(1);
    break;
  case 2:
    work(2); /* fall through */
  case 3:
    work(3);
    break;
  default:
    work(4);
  }
  return 0;
}
