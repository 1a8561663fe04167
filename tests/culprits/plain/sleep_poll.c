// Hands jobs to a worker and looks every 20 milliseconds whether they are done. They take half a millisecond.
#include "../own_clock.h"
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed = PTHREAD_COND_INITIALIZER;
static long job;
static uint64_t outcome;
static atomic_long done;
static double working;

static void *worker(void *count) {
    for (long i = 1; i <= (long)(intptr_t)count; i++) {
        pthread_mutex_lock(&lock);
        while (job < i)
            pthread_cond_wait(&handed, &lock);
        pthread_mutex_unlock(&lock);
        double start = seconds();
        for (int k = 0; k < 150000; k++)
            outcome = scrambled(outcome + (uint64_t)i);
        working += seconds() - start;
        atomic_store(&done, i);
    }
    return NULL;
}

static void hand_out(long number) {
    pthread_mutex_lock(&lock);
    job = number;
    pthread_cond_signal(&handed);
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void await_job(long number) {
    while (atomic_load(&done) < number)
        usleep(20000); // culprit
}

int main(int argc, char **argv) {
    long jobs = amount(argc, argv, 110);
    double begin = seconds(), waiting = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, worker, (void *)(intptr_t)jobs);
    for (long i = 1; i <= jobs; i++) {
        hand_out(i);
        double start = seconds();
        await_job(i);
        waiting += seconds() - start;
    }
    pthread_join(thread, NULL);
    // What the worker needed would have been waited for in any case.
    return tell(waiting - working, begin, (double)(outcome % 1000));
}
