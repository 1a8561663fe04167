#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  int both = a && b;
  int other = argc > 5 || argc < 2;
  if (both) // region {A,B}
    work(1);
  if (other)
    work(2);
  return 0;
}
