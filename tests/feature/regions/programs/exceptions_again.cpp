#include "feature.h"

struct Bad {
  int level;
};
static void step(int n, int a) {
  try {
    if (n > 3)
      throw Bad{a};
    work(n);
  } catch (...) {
    work(3);
    throw;
  }
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  try {
    step(argc, a);
  } catch (int code) {
    if (code > 4)
      work(1);
  } catch (Bad bad) {
    if (bad.level > 4) // region {A}
      work(2);
  }
  return 0;
}
