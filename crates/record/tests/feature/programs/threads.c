// Threads that count their own regions: A around B, in each of N threads, R rounds, and a forked child that does the same.
#include "sites.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__asm__(UNIT("A,B,C") REGION(0, "0", "work", "-", 0) REGION(1, "0,1", "work", "0", 1) REGION(2, "2", "leaf", "-", 0) END_OF_UNIT);

static volatile uint64_t sink;

__attribute__((noinline)) static void leaf(void) {
  REGION_BEGIN(2, 0);
  sink++;
  REGION_END(2, 0);
}

__attribute__((noinline)) static void *work(void *rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    REGION_BEGIN(0, 0);
    sink++;
    if (i % 3 == 0) {
      REGION_BEGIN(1, 1);
      leaf();
      REGION_END(1, 1);
    }
    leaf();
    REGION_END(0, 0);
  }
  return 0;
}

int main(int argc, char **argv) {
  int threads = atoi(argv[1]);
  long rounds = atol(argv[2]);
  int forks = argc > 3 ? atoi(argv[3]) : 0;
  pthread_t all[64];
  for (int i = 0; i < threads; i++) pthread_create(&all[i], 0, work, (void *)rounds);
  for (int i = 0; i < forks; i++) {
    if (fork() == 0) {
      work((void *)rounds);
      _exit(0);
    }
  }
  for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
  while (forks-- > 0) wait(0);
  return 0;
}
