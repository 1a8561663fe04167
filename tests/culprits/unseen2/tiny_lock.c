// Two threads take a mutex for each of millions of hits, only to add one.
#include "../own_clock.h"
#include <pthread.h>

static pthread_mutex_t hits_lock = PTHREAD_MUTEX_INITIALIZER;
static long hits[64], visits;

__attribute__((noinline)) static uint64_t page_of(uint64_t visit) { return scrambled(visit) & 63; }

__attribute__((noinline)) static void add_hit(uint64_t page) {
    pthread_mutex_lock(&hits_lock); // culprit
    hits[page]++;
    pthread_mutex_unlock(&hits_lock); // culprit
}

static void *counter(void *first) {
    for (long i = 0; i < visits; i++)
        add_hit(page_of((uint64_t)(intptr_t)first + (uint64_t)i));
    return NULL;
}

int main(int argc, char **argv) {
    visits = amount(argc, argv, 10000000);
    double begin = seconds();
    pthread_t other;
    pthread_create(&other, NULL, counter, (void *)1000000000);
    counter(NULL);
    pthread_join(other, NULL);
    // What is left without the lock, by a tenth of the visits.
    double start = seconds();
    long left[64] = {0};
    for (long i = 0; i < visits / 10; i++)
        left[page_of((uint64_t)i)]++;
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, (double)(hits[5] + left[5]));
}
