// Leaves the event of a begin by siglongjmp, once after each of its instructions (the CPU traps behind every one),
// and enters another region so and so often behind each.
#include "sites.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

__asm__(UNIT("A,B,C") REGION(0, "0", "left", "-", 0) REGION(1, "1", "whole", "-", 0) REGION(2, "2", "main", "-", 0) END_OF_UNIT);

static sigjmp_buf back;
static volatile int steps, done;
static volatile long sink;

static void step(int signal) {
  (void)signal;
  if (--steps == 0) siglongjmp(back, 1);
}

__attribute__((noinline)) static void left(void) {
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "cc", "memory");
  REGION_BEGIN(0, 0);
  __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "cc", "memory");
  REGION_END(0, 0);
  done = 1;
}

__attribute__((noinline)) static void whole(long times) {
  for (long i = 0; i < times; i++) {
    REGION_BEGIN(1, 0);
    sink++;
    REGION_END(1, 0);
  }
}

int main(int argc, char **argv) {
  long times = atol(argv[1]);
  signal(SIGTRAP, step);
  whole(1);
  if (argc > 2) REGION_BEGIN(2, 0);
  for (volatile int n = 1; !done; n++) {
    steps = n;
    if (sigsetjmp(back, 1) == 0) left();
    if (argc > 2) { // back in the frame around it: the event is known to be left
      REGION_END(2, 0);
      REGION_BEGIN(2, 0);
    }
    whole(times);
    if (!done) printf("%d\n", n);
  }
  if (argc > 2) REGION_END(2, 0);
  return 0;
}
