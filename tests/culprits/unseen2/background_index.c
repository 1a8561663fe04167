// The index that all wait for is made by a thread of low priority, while two others keep both CPUs busy with guesses.
#include "../own_clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static atomic_int ready;
static uint64_t guesses[2];
static long rows;
static double ran;

__attribute__((noinline)) static void run_in_background(void) {
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 12); // culprit
}

__attribute__((noinline)) static uint64_t index_rows(long count) {
    uint64_t state = 1;
    for (long i = 0; i < count * 100000; i++)
        state = scrambled(state + (uint64_t)i); // culprit
    return state;
}

static void *indexer(void *nothing) {
    (void)nothing;
    run_in_background();
    uint64_t state = index_rows(rows);
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    ran = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    atomic_store(&ready, 1);
    return (void *)(intptr_t)(state & 1023);
}

// Only of use as long as nothing better is to be done.
static void *warm_cache(void *number) {
    while (!atomic_load(&ready))
        for (int i = 0; i < 100000; i++)
            guesses[(intptr_t)number] = scrambled(guesses[(intptr_t)number] + 1);
    return NULL;
}

int main(int argc, char **argv) {
    rows = amount(argc, argv, 200);
    double begin = seconds();
    pthread_t warmers[2], thread;
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&warmers[i], NULL, warm_cache, (void *)i);
    pthread_create(&thread, NULL, indexer, NULL);
    void *state;
    pthread_join(thread, &state);
    double end = seconds();
    for (int i = 0; i < 2; i++)
        pthread_join(warmers[i], NULL);
    return tell(end - begin - ran, begin, (double)(intptr_t)state);
}
