// Makes system calls by syscall(2): argv[1] cheap ones, and among them argv[2] that sleep for 2 ms each. Prints how many calls it
// made, what the sleeping took, and what all took, ns. With a third argument it then gives up the clock, and makes 1000 more.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
int main(int argc, char **argv) {
    long cheap = atol(argv[1]), sleeps = atol(argv[2]), made = 0;
    struct timespec pause = {0, 2000000};
    long long begin = now(), slept = 0;
    for (long i = 0; i < cheap; i++) {
        syscall(SYS_getppid), made++;
        if (sleeps && i % (cheap / sleeps) == 0) {
            long long from = now();
            syscall(SYS_nanosleep, &pause, NULL), made++;
            slept += now() - from;
        }
    }
    long long took = now() - begin;
    if (argc > 3) {
        syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0), made++;
        for (int i = 0; i < 1000; i++) syscall(SYS_getppid), made++;
    }
    printf("%ld %lld %lld\n", made, slept, took);
    return 0;
}
