// A region before there is a thread control block (-static): in an IFUNC's resolver. With -DBARE: without any libc.
#include "sites.h"

__asm__(UNIT("A,B") REGION(0, "0", "resolve", "-", 0) REGION(1, "1", "later", "-", 0) END_OF_UNIT);

static volatile int sink;

static int one(int x) { return x + 1; }

__attribute__((used)) static void *resolve(void) {
  REGION_BEGIN(0, 0);
  sink++;
  REGION_END(0, 0);
  return (void *)one;
}

__attribute__((noinline)) static void later(void) {
  REGION_BEGIN(1, 0);
  sink++;
  REGION_END(1, 0);
}

#ifdef BARE
__attribute__((used)) static void start(void) {
  resolve();
  for (int i = 0; i < 100; i++) later();
  __asm__ volatile("syscall" : : "a"(231), "D"(0));
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call start\n");
#else
int run(int) __attribute__((ifunc("resolve")));

int main(void) {
  for (int i = 0; i < 100; i++) later();
  return run(3) == 4 ? 0 : 1;
}
#endif
