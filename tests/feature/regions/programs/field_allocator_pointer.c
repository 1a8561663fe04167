// An allocator that is called through a pointer makes new memory at each call.
#include "feature.h"

#include <stdlib.h>

struct memory {
  void *(*allocate)(void *, size_t);
  void *opaque;
};

static void *plain(void *opaque, size_t size) { return malloc(size); }

int main(int argc, char **argv) {
  struct memory memory = {plain, argv};
  FEATURE(A) int option_a = argc > 1;
  FEATURE(B) int option_b = argc > 2;
  int *first = memory.allocate(memory.opaque, argc * sizeof(int));
  int *second = memory.allocate(memory.opaque, argc * sizeof(int));
  *first = option_a;
  *second = option_b;
  if (*first) // region {A}
    work(1);
  if (*second) // region {B}
    work(2);
  return 0;
}
