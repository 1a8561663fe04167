#include "feature.h"

struct Bad {
  int level;
};
struct Worse {
  int level;
};
static void step(int n, int a) {
  if (n > 3)
    throw Bad{a};
  if (n > 2)
    throw Worse{n};
  work(n);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  try {
    step(argc, a);
  } catch (const Bad &bad) {
    if (bad.level > 4) // region {A}
      work(1);
  } catch (const Worse &worse) {
    if (worse.level > 4)
      work(2);
  }
  return 0;
}
