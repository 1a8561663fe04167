#include "feature.h"

struct Failure {
  int level;
  explicit Failure(int level) : level(level) {}
  virtual ~Failure() {}
};
struct Named {
  int name;
  explicit Named(int name) : name(name) {}
  virtual ~Named() {}
};
struct Read : Failure, Named {
  Read(int level, int name) : Failure(level), Named(name) {}
};
static void step(int n, int a, int b) {
  if (n > 3)
    throw Read(a, b);
  work(n);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  FEATURE(B) int b = argc;
  try {
    step(argc, a, b);
  } catch (const Failure &failure) {
    if (failure.level > 4) // region {A}
      work(1);
  }
  try {
    step(argc + 1, a, b);
  } catch (const Named &named) {
    if (named.name > 4) // region {B}
      work(2);
  }
  return 0;
}
