#include "feature.h"

#include <stdarg.h>
static int sum(int count, va_list list) {
  int result = 0;
  for (int i = 0; i < count; i++)
    result += va_arg(list, int);
  for (int i = 0; i < count; i++)
    work(i);
  return result;
}
static int total(int count, ...) {
  va_list list;
  va_start(list, count);
  int result = sum(count, list);
  va_end(list);
  return result;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc;
  int with = total(2, a, argc), without = total(2, argc, argc + 1);
  if (with > 3) // region {A}
    work(1);
  if (without > 3)
    work(2);
  return 0;
}
