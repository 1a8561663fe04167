// A number that an option gives beside data is data once it is kept in a variable of the program, as an offset or a size is.
#include "feature.h"

extern int data(int);

static int end, level;

static int endOf(int size) { return data(0) + size; }

int main(int argc, char **argv) {
  FEATURE(Size) int size = argc;
  if (endOf(size) > 100) // region {Size}
    work(1);
  end = endOf(size);
  if (end > 200)
    work(2);
  level = size * 2;
  if (level > 3) // region {Size}
    work(3);
  return 0;
}
