#include "feature.h"

static void stored(int n) { work(n); }
static void fast(int n) { work(2 * n); }
static void slow(int n) { work(3 * n); }
static void (*const methods[3])(int) = {stored, fast, slow};
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc % 3;
  methods[level](4); // region {Level}
  methods[argc & 1](5);
  return 0;
}
