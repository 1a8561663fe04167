// options: -fopenmp
#include "feature.h"

static void run(int level, int other) {
#pragma omp parallel
#pragma omp single
  {
#pragma omp task
    {
      if (level > 3) // region {A}
        work(1);
      if (other)
        work(2);
    }
#pragma omp taskwait
  }
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  run(level, argv[0][0]);
  return 0;
}
