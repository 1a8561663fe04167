// Threads that live for a millisecond, most of it after they have left their region.
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 400 };

long entered[16];
static int fast;
static long lived;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *worker(void *argument) {
    long start = now();
    if (fast) { // region 1 {fast}
        ENTERED(1);
        while (now() - start < 100000)
            ;
    }
    usleep(1000);
    lived += now() - start;
    return argument;
}

int main(int argc, char **argv) {
    long start = now();
    fast = argc > 1 && atoi(argv[1]);
    long around = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        long before = now();
        pthread_create(&thread, 0, worker, 0);
        pthread_join(thread, 0);
        around += now() - before;
    }
    say_truth();
    long whole = now() - start;
    printf("threads %d lived %ld to %ld\n", THREADS, lived + whole, around + whole);
    return 0;
}
