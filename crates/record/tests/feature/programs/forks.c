// Forks inside of open regions, each process says what it spent where, ns: `silent` children end without an event, one
// leaves the region of its parent and goes on, one makes a thread before, one forks again, one becomes `true`. All of its threads' time is in a region
// or after one.
#include "sites.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__asm__(UNIT("A,B,C") REGION(0, "0", "main", "-", 0) REGION(1, "1", "inside", "-", 0) REGION(2, "2", "child", "-", 0) END_OF_UNIT);

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void spin(int ms) {
  long end = now() + ms * 1000000L;
  while (now() < end)
    ;
}

__attribute__((noinline)) static void child(int ms) {
  REGION_BEGIN(2, 0);
  spin(ms);
  REGION_END(2, 0);
}

static void *thread(void *argument) {
  child(30);
  return argument;
}

// True in a child that has left the region.
__attribute__((noinline)) static int inside(const char *kind) {
  int left = 0;
  REGION_BEGIN(1, 0);
  if (fork() == 0) {
    if (!strcmp(kind, "silent")) {
      spin(60);
      _exit(0);
    } else if (!strcmp(kind, "leaves")) {
      spin(40);
      left = 1;
    } else if (!strcmp(kind, "thread")) {
      pthread_t made;
      pthread_create(&made, 0, thread, 0);
      pthread_join(made, 0);
      left = 1;
    } else if (!strcmp(kind, "again")) {
      if (fork() == 0) {
        spin(60);
        child(30);
        _exit(0);
      }
      wait(0);
      _exit(0);
    } else if (!strcmp(kind, "executes")) {
      spin(40);
      execlp("sleep", "sleep", "0.1", (char *)0);
      _exit(1);
    }
  }
  REGION_END(1, 0);
  return left;
}

int main(int argc, char **argv) {
  REGION_BEGIN(0, 0);
  int left = inside(argv[1]);
  // What the parent does at once is not the child's.
  if (!left) {
    child(1);
    wait(0);
  } else {
    spin(30);
  }
  REGION_END(0, 0);
  if (left) {
    spin(50);
    child(20);
  }
  return argc > 2;
}
