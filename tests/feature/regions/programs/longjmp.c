#include "feature.h"

#include <setjmp.h>
static jmp_buf back;
static void deep(int a) {
  work(1);
  if (a) { // region {A}
    work(2);
    longjmp(back, 1);
  }
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  if (setjmp(back) == 0)
    deep(a);
  work(3);
  return 0;
}
