#include "feature.h"

struct state {
  int level;
  int used;
};
static unsigned long total;
static void *reserve(size_t bytes, int line) {
  void *memory = calloc(1, bytes);
  if (!memory) {
    for (int i = 0; i < 10; ++i)
      work(line + i * i % 7);
    work(line * 3 + 1);
    work(line * 5 - 2);
    exit(line);
  }
  total += bytes;
  if (total > 1000000) {
    work(line / 7);
    work(line % 13);
    total = total / 2 + total % 5 + (total >> 7) + (unsigned long)line * 31;
  }
  return memory;
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  struct state *with = reserve(sizeof *with, 1), *without = reserve(sizeof *without, 2);
  with->level = level;
  without->level = argc;
  if (with->level > 3) // region {A}
    work(1);
  if (without->level > 3)
    work(2);
  return 0;
}
