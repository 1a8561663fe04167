#include "feature.h"

template <typename T> T same(T value) { return value; }
template <bool Fast> struct Policy {
  static void run(int n) { work(Fast ? n : 2 * n); }
};
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  if (same<bool>(a)) // region {A}
    Policy<true>::run(3);
  else
    Policy<false>::run(3);
  if (same<int>(argc) > 4)
    work(2);
  return 0;
}
