#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  int status = a * 2;
  if (status) // region {A}
    work(1);
  status = b * 2;
  if (status) // region {B}
    work(2);
  return 0;
}
