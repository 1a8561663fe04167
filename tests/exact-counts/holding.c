/* One thread holds a recursive mutex, a mutex that it gives away for waits on a condition, and a plain one: holding ROUNDS.
 * Prints how long each, ns: of the second without the waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pthread_mutex_t recursive, waiting = PTHREAD_MUTEX_INITIALIZER, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long spin(long ns) {
    long start = now(), t;
    while ((t = now()) < start + ns) {}
    return t - start;
}
int main(int argc, char **argv) {
    long held[3] = {0};
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    for (long round = argc > 1 ? atol(argv[1]) : 100; round > 0; round--) {
        pthread_mutex_lock(&recursive);
        held[0] += spin(400000);
        pthread_mutex_lock(&recursive);
        held[0] += spin(200000);
        pthread_mutex_unlock(&recursive);
        held[0] += spin(1400000);
        pthread_mutex_unlock(&recursive);

        pthread_mutex_lock(&waiting);
        held[1] += spin(300000);
        for (int wait = 0; wait < 2; wait++) {
            struct timespec end;
            clock_gettime(CLOCK_REALTIME, &end);
            end.tv_nsec += 500000;
            if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
            pthread_cond_timedwait(&never, &waiting, &end);
            held[1] += spin(700000);
        }
        pthread_mutex_unlock(&waiting);

        pthread_mutex_lock(&plain);
        held[2] += spin(500000);
        pthread_mutex_unlock(&plain);
    }
    printf("%ld %ld %ld\n", held[0], held[1], held[2]);
    return 0;
}
