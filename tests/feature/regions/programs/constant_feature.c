#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = 1;
  FEATURE(B) int b = 0;
  if (a) // region {A}
    work(1);
  if (b) // region {B}
    work(2);
  return 0;
}
