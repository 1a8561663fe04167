// Two threads that spend seven and three parts of their work in regions 0 and 1, the latter below a function without
// region, and wait in between; `rounds` times.
#include "sites.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

__asm__(UNIT("A,B") REGION(0, "0", "work", "-", 0) REGION(1, "1", "inner", "-", 0) END_OF_UNIT);

static volatile uint64_t sink;

__attribute__((noinline)) static void spin(long parts) {
  for (long i = 0; i < parts * 200000; i++) sink = i;
}

__attribute__((noinline)) static void inner(void) {
  REGION_BEGIN(1, 0);
  spin(3);
  REGION_END(1, 0);
}

__attribute__((noinline)) static void between(void) {
  inner();
  sink++;
}

__attribute__((noinline)) static void *work(void *rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    REGION_BEGIN(0, 0);
    spin(7);
    REGION_END(0, 0);
    between();
    usleep(500);
  }
  return 0;
}

int main(int argc, char **argv) {
  void *rounds = (void *)atol(argc > 1 ? argv[1] : "300");
  pthread_t other;
  pthread_create(&other, 0, work, rounds);
  work(rounds);
  pthread_join(other, 0);
  return 0;
}
