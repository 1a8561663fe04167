// Threads that work, wait for one another and enter regions of features, for so many seconds; says when it has begun.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int fast;
static double seconds = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long sum;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) static void compute(int rounds) {
    for (int i = 0; i < rounds; i++)
        sum += i * 7 % 13;
}

static void *work(void *nothing) {
    double end = now() + seconds;
    while (now() < end) {
        pthread_mutex_lock(&lock);
        if (fast)
            compute(20000);
        else
            compute(40000);
        pthread_mutex_unlock(&lock);
        usleep(500);
    }
    return nothing;
}

int main(int argc, char **argv) {
    if (argc > 1)
        seconds = atof(argv[1]);
    fast = argc > 2 && !strcmp(argv[2], "--fast");
    puts("begun");
    fflush(stdout);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
