#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  int slow = 0, many = 0;
  if (a) // region {A}
    slow = 1;
  if (argc > 4)
    many = 1;
  if (slow) // region {A}
    work(1);
  if (many)
    work(2);
  return 0;
}
