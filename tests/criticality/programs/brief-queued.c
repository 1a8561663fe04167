// Waits briefly, for 20 us, and then for a millisecond elsewhere, on a CPU that others want, too: most of each wait is for the
// CPU. Prints its own clock's ns of both. Usage: brief-queued TIMES CPU
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((noinline)) static long pauses(void) {
    long begin = now();
    struct timespec brief = {0, 20000};
    nanosleep(&brief, NULL);
    return now() - begin;
}

__attribute__((noinline)) static long rests(void) {
    long begin = now();
    poll(NULL, 0, 1);
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
    long paused = 0, rested = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        paused += pauses();
        rested += rests();
    }
    printf("%ld %ld\n", paused, rested);
}
