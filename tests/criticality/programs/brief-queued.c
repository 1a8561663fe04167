// Waits briefly and often, on a CPU that others want, too: most of each wait is for the CPU. Between two waits it makes a call that
// does not wait. Prints its own clock's ns of both. Usage: brief-queued TIMES CPU
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

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

__attribute__((noinline)) static long tells(int fd) {
    long begin = now(), one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        exit(1);
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
    int fd = eventfd(0, 0);
    long paused = 0, told = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        paused += pauses();
        told += tells(fd);
    }
    printf("%ld %ld\n", paused, told);
}
