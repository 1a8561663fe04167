#include "feature.h"

struct Guard {
  int n;
  explicit Guard(int n) : n(n) { work(n); }
  ~Guard() { work(n); }
};
static void run(bool a, int n) {
  Guard guard(n);
  if (a) { // region {A}
    Guard inner(n + 1);
    work(2);
    if (n > 4)
      return;
    work(3);
  }
  work(4);
}
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  run(a, argc);
  return 0;
}
