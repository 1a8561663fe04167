/* A thread that sleeps, and one that waits for it, each by its own clock: waiting SLEEPS MICROSECONDS. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long sleeps, microseconds, slept, joined;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void *sleeper(void *unused) {
    (void)unused;
    for (long i = 0; i < sleeps; i++) {
        long begin = now();
        usleep((useconds_t)microseconds);
        slept += now() - begin;
    }
    return NULL;
}
int main(int argc, char **argv) {
    sleeps = argc > 1 ? atol(argv[1]) : 100, microseconds = argc > 2 ? atol(argv[2]) : 1000;
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    long begin = now();
    pthread_join(thread, NULL);
    joined = now() - begin;
    printf("%ld %ld\n", slept, joined);
    return 0;
}
