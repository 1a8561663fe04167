// Yields in a loop, and computes afterwards: both for so many ms, on one CPU. Usage: queued MS CPU
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((noinline)) static long waits(long ns) {
    long begin = now();
    while (now() - begin < ns)
        sched_yield();
    return now() - begin;
}

__attribute__((noinline)) static long works(long ns) {
    volatile long sum = 0;
    long begin = now();
    while (now() - begin < ns)
        for (long i = 0; i < 10000; i++)
            sum += i;
    return now() - begin;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(atoi(argv[2]), &one);
    if (sched_setaffinity(0, sizeof one, &one))
        return 1;
    long waited = waits(atol(argv[1]) * 1000000), worked = works(atol(argv[1]) * 1000000);
    printf("%ld %ld\n", waited, worked);
}
