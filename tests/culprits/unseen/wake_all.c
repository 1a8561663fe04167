// Each job that is submitted wakes all 24 workers, of which one gets it.
#include "hclock.h"
#include <pthread.h>
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_there = PTHREAD_COND_INITIALIZER, jobs_taken = PTHREAD_COND_INITIALIZER;
static long waiting, closed, count = 20000; static uint64_t sum;
static void submit_job(void) {
    IN;
    pthread_mutex_lock(&jobs_lock);
    waiting++;
    pthread_cond_broadcast(&jobs_there); // HERE
    while (waiting)
        pthread_cond_wait(&jobs_taken, &jobs_lock);
    pthread_mutex_unlock(&jobs_lock);
    OUT;
}
static int next_job(void) {
    pthread_mutex_lock(&jobs_lock);
    while (!waiting && !closed)
        pthread_cond_wait(&jobs_there, &jobs_lock); // HERE
    int got = waiting > 0;
    if (got) { waiting--; pthread_cond_signal(&jobs_taken); }
    pthread_mutex_unlock(&jobs_lock); // HERE
    return got;
}
static void *worker(void *p) { uint64_t s = 0; while (next_job()) for (int k = 0; k < 500; k++) s = mixed(s + k); __atomic_fetch_add(&sum, s, 5); return p; }
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) count = atol(argv[1]);
    pthread_t t[24];
    for (int i = 0; i < 24; i++) pthread_create(&t[i], NULL, worker, NULL);
    for (long i = 0; i < count; i++) submit_job();
    pthread_mutex_lock(&jobs_lock); closed = 1; pthread_cond_broadcast(&jobs_there); pthread_mutex_unlock(&jobs_lock);
    for (int i = 0; i < 24; i++) pthread_join(t[i], NULL);
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
