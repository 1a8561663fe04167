// Runs until it is killed; regions are open when somebody attaches: main is in region 0 all the time, its worker calls
// functions with regions. It counts what the worker has done in a shared file: rounds.
#include "sites.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

__asm__(UNIT("A,B,C") REGION(0, "0", "main", "-", 0) REGION(1, "1", "work", "-", 0) REGION(2, "2", "step", "-", 0) END_OF_UNIT);

static volatile uint64_t *rounds;
static volatile int go = 1;

__attribute__((noinline)) static void step(void) {
  REGION_BEGIN(2, 0);
  rounds[1]++;
  REGION_END(2, 0);
}

static void *work(void *unused) {
  (void)unused;
  while (go) {
    REGION_BEGIN(1, 0);
    for (int i = 0; i < 100; i++) step();
    rounds[0]++;
    REGION_END(1, 0);
    usleep(100);
  }
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 4096)) return 1;
  rounds = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  for (;;) {
    REGION_BEGIN(0, 0);
    sleep(1);
    REGION_END(0, 0);
  }
}
