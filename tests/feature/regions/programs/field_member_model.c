#include "feature.h"

// model: member A options fast
// model: member B options deep
struct options {
  int fast, small;
  struct {
    int deep;
  } more;
};
int main(int argc, char **argv) {
  struct options o = {argc > 1, argc > 2, {0}}, *p = argc > 5 ? &o : calloc(1, sizeof o);
  if (p->fast) // region {A}
    work(1);
  if (p->small)
    work(2);
  return 0;
}
