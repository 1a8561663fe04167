#include "feature.h"

#include <stdarg.h>
static void show(int count, ...) {
  va_list list;
  va_start(list, count);
  for (int i = 0; i < count; i++)
    if (va_arg(list, int)) // region {A}
      work(i);
  va_end(list);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  show(2, a, argc);
  return 0;
}
