// Two long tasks have both threads of the pool, and main waits for many short tasks behind them.
#include "hclock.h"
#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t more = PTHREAD_COND_INITIALIZER, less = PTHREAD_COND_INITIALIZER;
static int queue[64], head, tail, open_ = 1; static uint64_t out[64]; static long size = 300000000;
__attribute__((noinline)) static uint64_t rebuild_index(uint64_t x) { IN; for (long i = 0; i < size; i++) x = mixed(x + i); OUT; return x; } // HERE
__attribute__((noinline)) static uint64_t answer_query(uint64_t x) { for (int i = 0; i < 100000; i++) x = mixed(x + i); return x; }
static void *pool_thread(void *p) {
    for (;;) {
        pthread_mutex_lock(&m);
        while (head == tail && open_) pthread_cond_wait(&more, &m);
        if (head == tail) { pthread_mutex_unlock(&m); return p; }
        int t = queue[head++ & 63]; pthread_mutex_unlock(&m);
        out[t] = t < 2 ? rebuild_index(t) : answer_query(t);
        pthread_mutex_lock(&m); pthread_cond_signal(&less); pthread_mutex_unlock(&m);
    }
}
int main(int argc, char **argv) {
    CLOCK_INIT; if (argc > 1) size = atol(argv[1]);
    pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, pool_thread, NULL);
    for (int i = 0; i < 50; i++) { pthread_mutex_lock(&m); queue[tail++ & 63] = i; pthread_cond_signal(&more); pthread_mutex_unlock(&m); }
    pthread_mutex_lock(&m); while (head != tail) pthread_cond_wait(&less, &m); open_ = 0; pthread_cond_broadcast(&more); pthread_mutex_unlock(&m);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    spent_ /= 2; printf("%d\n", (int)(out[1] & 7)); CLOCK_SAY;
}
