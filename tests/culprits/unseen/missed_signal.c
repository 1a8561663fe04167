// The worker sets its flag before the wait and signals without the lock, so that main often waits for the whole time-out.
#include "hclock.h"
#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t unused_ = PTHREAD_COND_INITIALIZER;
static volatile uint64_t asked, done;
static void *worker(void *p) { uint64_t x = 1; while (done < 1u << 30) { uint64_t a = asked; if (a == 1u << 30) break; if (a > done) { for (int i = 0; i < 300000; i++) x = mixed(x); done = a; } else { struct timespec t = {0, 200000}; nanosleep(&t, NULL); } } return (void *)(uintptr_t)(x & 1); }
__attribute__((noinline)) static void await_result(uint64_t n) {
    IN;
    pthread_mutex_lock(&m);
    while (done < n) {
        struct timespec t; clock_gettime(CLOCK_REALTIME, &t);
        if ((t.tv_nsec += 15000000) >= 1000000000) { t.tv_sec++; t.tv_nsec -= 1000000000; }
        pthread_cond_timedwait(&unused_, &m, &t); // HERE
    }
    pthread_mutex_unlock(&m);
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 100; pthread_t t; uint64_t x = 1;
    pthread_create(&t, NULL, worker, NULL);
    for (long i = 1; i <= n; i++) { for (int k = 0; k < 500000; k++) x = mixed(x); asked = i; await_result(i); }
    asked = 1u << 30; pthread_join(t, NULL);
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
