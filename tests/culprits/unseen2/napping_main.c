// The first thread looks every 50 us whether the other one is done: what that does is the culprit, not the naps.
#include "../own_clock.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_int done;
static long rows;
static double added, sum;

static __attribute__((noinline)) void add_rows(void) {
    double begin = seconds();
    for (long row = 0; row < rows; row++)
        sum += (double)(row % 1021) / 3.0;
    added += seconds() - begin;
}

static void *report(void *unused) {
    add_rows();
    atomic_store(&done, 1);
    return unused;
}

int main(int argc, char **argv) {
    rows = amount(argc, argv, 400000000);
    double begin = seconds();
    pthread_t thread;
    pthread_create(&thread, NULL, report, NULL);
    while (!atomic_load(&done))
        usleep(50);
    pthread_join(thread, NULL);
    return tell(added, begin, sum);
}
