// Threads that spin, sleep, wait for a lock, and wait for a CPU in their regions, and read their own CPU time.
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 40 };

long entered[16];
static int spin, rest, lock;
static long cpu[4];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __thread int counter;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static __attribute__((noinline)) void work(long ns) {
    long start = now();
    while (now() - start < ns)
        ;
}

static __attribute__((noinline)) long own(void) { return on_processor(counter, 0); }

static __attribute__((noinline)) void add(int k, long since) { __atomic_fetch_add(&cpu[k], own() - since, __ATOMIC_RELAXED); }

static void *worker(void *argument) {
    counter = processor_counter(0);
    for (int i = 0; i < ROUNDS; i++) {
        if (spin) { // region 1 {spin}
            ENTERED(1);
            long start = own();
            work(3000000);
            add(1, start);
        }
        if (rest) { // region 2 {rest}
            ENTERED(2);
            long start = own();
            usleep(2000);
            work(500000);
            add(2, start);
        }
        if (lock) { // region 3 {lock}
            ENTERED(3);
            long start = own();
            pthread_mutex_lock(&mutex);
            work(300000);
            usleep(200);
            pthread_mutex_unlock(&mutex);
            add(3, start);
        }
    }
    return argument;
}

int main(int argc, char **argv) {
    spin = argc > 1 && atoi(argv[1]);
    rest = argc > 2 && atoi(argv[2]);
    lock = argc > 3 && atoi(argv[3]);
    counter = processor_counter(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    say_truth();
    for (int k = 1; k < 4; k++)
        printf("on CPU %d %ld\n", k, cpu[k]);
    printf("on CPU 0 %ld\n", on_processor(counter, 1));
    return 0;
}
