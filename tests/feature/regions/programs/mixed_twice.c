// A number that an option gives is one beside data, too; what it becomes beside data again, and positions in data, are data.
#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(Size) int size = argc;
  const int length = (int)strlen(argv[0]), other = (int)strlen(argv[1]);
  if (length > size) // region {Size}
    work(1);
  const int blocks = length / size;
  if (blocks > 1) // region {Size}
    work(2);
  for (int i = 0; i < blocks; ++i) // region {Size}
    work(3);
  const int rest = other - blocks;
  if (rest > 1)
    work(4);
  const char *end = argv[0] + size;
  if (end > argv[1]) // region {Size}
    work(5);
  const char *behind = end + length;
  if (behind > argv[1])
    work(6);
  if (end - argv[0] > 5)
    work(7);
  return 0;
}
