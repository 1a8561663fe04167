#include "feature.h"

typedef void (*fn)(int);
static fn table[8];
static int count;
static void add(fn f) { table[count++] = f; }
static void one(int n) { work(n); }
static void two(int n) { work(n + 1); }
int main(int argc, char **argv) {
  FEATURE(A) int option = argc & 1;
  add(one);
  add(two);
  table[option](3); // region {A}
  table[argv[0][0] & 1](3);
  return 0;
}
