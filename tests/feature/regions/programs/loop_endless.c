#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  for (;;) {
    work(1);
    if (a) // region {A}
      work(2);
  }
}
