// Threads in a ring hand on one token: each waits for a lap, on even laps in one function and on odd ones, which are slower, in another.
// Prints the number of waits and its own clock's ns of both. Usage: long-ring THREADS LAPS
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int threads, laps;
static sem_t *turns;
static long quick_ns, slow_ns, count;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void wait_for(sem_t *turn) {
    while (sem_wait(turn))
        ;
}

__attribute__((noipa)) static long waits_quick(sem_t *turn) {
    long begin = now();
    wait_for(turn);
    return now() - begin;
}

__attribute__((noipa)) static long waits_slow(sem_t *turn) {
    long begin = now();
    wait_for(turn);
    return now() - begin;
}

static void *member(void *argument) {
    long own = (long)argument, quick = 0, slow = 0;
    for (int lap = 0; lap < laps; lap++) {
        if (lap % 2)
            slow += waits_slow(&turns[own]);
        else
            quick += waits_quick(&turns[own]);
        // The lap before a slow wait ends is the slow one.
        if (lap % 2 == 0)
            for (long end = now() + 10000; now() < end;)
                ;
        sem_post(&turns[(own + 1) % threads]);
    }
    __atomic_fetch_add(&quick_ns, quick, __ATOMIC_RELAXED);
    __atomic_fetch_add(&slow_ns, slow, __ATOMIC_RELAXED);
    __atomic_fetch_add(&count, laps, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    threads = atoi(argv[1]);
    laps = atoi(argv[2]);
    turns = calloc(threads, sizeof *turns);
    pthread_t *all = calloc(threads, sizeof *all);
    for (int i = 0; i < threads; i++)
        sem_init(&turns[i], 0, 0);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, member, (void *)i);
    sem_post(&turns[0]);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    printf("%ld %ld %ld\n", count, quick_ns, slow_ns);
}
