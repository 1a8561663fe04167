#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  for (int i = 0; i < argc; i++) {
    if (a) { // region {A}
      for (int j = 0; j < 3; j++)
        work(j);
    }
  }
  return 0;
}
