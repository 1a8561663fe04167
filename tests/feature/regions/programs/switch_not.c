#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  switch (argc) {
  case 1:
    work(1);
    break;
  case 2:
    if (a) // region {A}
      work(2);
    break;
  }
  return 0;
}
