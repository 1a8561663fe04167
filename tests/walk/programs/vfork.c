// The main thread sleeps uninterruptibly, in vfork(), for longer than anybody waits for it; another one computes
// meanwhile, or, with "alone", nobody: vfork SECONDS [alone].
#define _GNU_SOURCE
#include "clock.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sum;

static void work(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 1000; i++)
            sum = sum + i;
}

// Near the threshold: their caller is timed for a long time.
__attribute__((noinline)) static void more(void) { work(0.00103); }
__attribute__((noinline)) static void less(void) { work(0.00097); }

__attribute__((noinline)) static void *compute(void *until) {
    while (now() < *(double *)until) {
        more();
        less();
        work(0.002);
    }
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 8, start = now(), until = start + seconds + 2;
    pthread_t thread;
    int alone = argc > 2;
    if (!alone)
        pthread_create(&thread, NULL, compute, &until);
    double first = start + 1;
    compute(&first);
    pid_t child = vfork();
    if (child == 0) {
        struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        nanosleep(&time, NULL);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    compute(&until);
    if (!alone)
        pthread_join(thread, NULL);
    printf("over %d after %.2f s\n", status, now() - start);
    return 0;
}
