// Clerks work out entries on their own, but each posts with the one lock of the ledger held, and posting is long.
#include "../own_clock.h"
#include <pthread.h>

enum { CLERKS = 4, ACCOUNTS = 512 };
static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t ledger[ACCOUNTS];
static double held;
static long entries;

static uint64_t work_out(uint64_t entry) {
    for (int i = 0; i < 8000; i++)
        entry = scrambled(entry + 1);
    return entry;
}

__attribute__((noinline)) static void post_entry(uint64_t entry) {
    pthread_mutex_lock(&ledger_lock); // culprit
    double start = seconds();
    for (int round = 0; round < 400; round++)
        for (int i = 0; i < ACCOUNTS; i++)
            ledger[i] = (ledger[i] ^ entry) * 31 + (ledger[i] >> 7); // culprit
    held += seconds() - start;
    pthread_mutex_unlock(&ledger_lock);
}

static void *clerk(void *number) {
    uint64_t entry = (uintptr_t)number;
    for (long i = 0; i < entries; i++) {
        entry = work_out(entry);
        post_entry(entry);
    }
    return NULL;
}

int main(int argc, char **argv) {
    entries = amount(argc, argv, 2000);
    double begin = seconds();
    pthread_t threads[CLERKS];
    for (uintptr_t i = 0; i < CLERKS; i++)
        pthread_create(&threads[i], NULL, clerk, (void *)i);
    for (int i = 0; i < CLERKS; i++)
        pthread_join(threads[i], NULL);
    return tell(held, begin, (double)(ledger[7] % 1000));
}
