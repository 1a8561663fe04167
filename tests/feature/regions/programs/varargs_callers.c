#include "feature.h"

#include <stdarg.h>
static int largest(int count, ...) {
  va_list list;
  int result = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++) {
    int value = va_arg(list, int);
    result += value;
  }
  va_end(list);
  return result;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  int with = largest(2, a, argc), without = largest(2, argc, argc + 1);
  if (with > 3) // region {A}
    work(1);
  if (without > 3)
    work(2);
  return 0;
}
