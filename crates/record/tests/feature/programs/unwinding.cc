// Exceptions and longjmp out of regions, in numbers that the program is told.
#include "sites.h"
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

__asm__(UNIT("A,B,C,D") REGION(0, "0", "outer", "-", 0) REGION(1, "1", "thrower", "-", 0) REGION(2, "2", "thrower", "1", 1)
            REGION(3, "3", "jumper", "-", 0) END_OF_UNIT);

static volatile uint64_t sink;
static jmp_buf place;

__attribute__((noinline)) static void thrower(int depth) {
  REGION_BEGIN(1, 0);
  sink = sink + 1;
  REGION_BEGIN(2, 1);
  if (depth == 0) throw 1;
  thrower(depth - 1);
  REGION_END(2, 1);
  REGION_END(1, 0);
}

__attribute__((noinline)) static void jumper() {
  REGION_BEGIN(3, 0);
  sink = sink + 1;
  longjmp(place, 1);
}

__attribute__((noinline)) static void outer() {
  REGION_BEGIN(0, 0);
  try {
    thrower(2);
  } catch (int) {
    REGION_RESTORE(0, 1);
    sink = sink + 1;
  }
  if (setjmp(place) == 0) {
    jumper();
  } else {
    REGION_RESTORE(0, 1);
  }
  sink = sink + 1;
  REGION_END(0, 0);
}

int main(int, char **argv) {
  for (long i = atol(argv[1]); i > 0; i--) outer();
}
