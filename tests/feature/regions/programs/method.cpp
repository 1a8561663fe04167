#include "feature.h"

class Options {
  bool fast, small;

public:
  Options(bool fast, bool small) : fast(fast), small(small) {}
  bool isFast() const { return fast; }
  bool isSmall() const { return small; }
};
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  Options one(a, argc > 2), two(argc > 3, a);
  if (one.isFast()) // region {A}
    work(1);
  if (one.isSmall())
    work(2);
  if (two.isFast())
    work(3);
  if (two.isSmall()) // region {A}
    work(4);
  return 0;
}
