// A reader hands each row to a writer thread through a queue that holds one row only.
#include "hclock.h"
#include <pthread.h>
static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t slot_free = PTHREAD_COND_INITIALIZER, slot_full = PTHREAD_COND_INITIALIZER;
static uint64_t slot; static int full; static long rows = 120000; static uint64_t sum;
__attribute__((noinline)) static void put_row(uint64_t row) {
    IN;
    pthread_mutex_lock(&slot_lock);
    while (full)
        pthread_cond_wait(&slot_free, &slot_lock); // HERE
    slot = row; full = 1;
    pthread_cond_signal(&slot_full);
    pthread_mutex_unlock(&slot_lock); // HERE
    OUT;
}
__attribute__((noinline)) static uint64_t take_row(void) {
    pthread_mutex_lock(&slot_lock);
    while (!full)
        pthread_cond_wait(&slot_full, &slot_lock);
    uint64_t row = slot; full = 0;
    pthread_cond_signal(&slot_free);
    pthread_mutex_unlock(&slot_lock); // HERE
    return row;
}
static void *writer(void *p) { for (long i = 0; i < rows; i++) sum += mixed(take_row()); return p; }
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) rows = atol(argv[1]);
    pthread_t t; pthread_create(&t, NULL, writer, NULL);
    for (long i = 0; i < rows; i++) { uint64_t r = i; for (int k = 0; k < 150; k++) r = mixed(r); put_row(r); }
    pthread_join(t, NULL);
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
