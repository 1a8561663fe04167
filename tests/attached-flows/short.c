// Threads that are there all the time and sleep, and four at a time that live for some 100 us; all of them call.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *lives_for_a_moment(void *argument) {
    for (double end = now() + 1e-4; now() < end;) free(malloc(8));
    return argument;
}

static void *sleeps(void *argument) {
    pthread_setname_np(pthread_self(), "sleeper");
    for (;;) {
        usleep(20000);
        free(malloc(8));
    }
    return argument;
}

int main(void) {
    pthread_t threads[4];
    alarm(120);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, sleeps, 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, lives_for_a_moment, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        usleep(20000);
    }
}
