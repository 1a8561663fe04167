#include "feature.h"

// model: member A Base fast
struct Base {
  bool fast;
  int other;
};
struct Derived : Base {
  int more;
};
static void run(const Derived &d) {
  if (d.fast) // region {A}
    work(1);
  if (d.more)
    work(2);
  if (d.other)
    work(3);
}
int main(int argc, char **argv) {
  Derived d;
  d.fast = argc > 1;
  d.more = argc;
  d.other = argc;
  run(d);
  return 0;
}
