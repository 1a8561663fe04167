/* One thread takes a lock often and holds it for short: held KIND CALLS STEPS. Prints how long it holds it in the mean, in
 * thousandths of a nanosecond: what the same work takes without a lock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
/* Each step waits for the one before. */
static inline unsigned long work(unsigned long x, long steps) {
    for (long i = 0; i < steps; i++) {
        x *= 0x9e3779b97f4a7c15u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}
static long one(int kind, long calls, long steps) {
    unsigned long x = 1;
    long start = now();
    for (long i = 0; i < calls; i++) {
        switch (kind) {
        case 'm': pthread_mutex_lock(&mutex); break;
        case 'w': pthread_rwlock_wrlock(&rwlock); break;
        case 'r': pthread_rwlock_rdlock(&rwlock); break;
        case 's': pthread_spin_lock(&spinlock); break;
        }
        x = work(x, steps);
        switch (kind) {
        case 'm': pthread_mutex_unlock(&mutex); break;
        case 'w': case 'r': pthread_rwlock_unlock(&rwlock); break;
        case 's': pthread_spin_unlock(&spinlock); break;
        }
    }
    long took = now() - start;
    __asm__ volatile("" : : "r"(x));
    return took;
}
int main(int argc, char **argv) {
    (void)argc;
    long calls = atol(argv[2]), steps = atol(argv[3]), best = -1;
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    one(argv[1][0], calls, steps);
    for (int i = 0; i < 9; i++) {
        long took = one('-', calls / 10, steps);
        if (best < 0 || took < best) best = took;
    }
    printf("%ld\n", best * 1000 / (calls / 10));
    return 0;
}
