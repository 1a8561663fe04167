// Keeps a ledger in a mapped file and waits for the disk with msync after each entry.
#include "../own_clock.h"
#include <pthread.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20 };
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static unsigned char *ledger;

__attribute__((noinline)) static uint64_t entry_of(uint64_t number) {
    for (int i = 0; i < 3000; i++)
        number = scrambled(number);
    return number;
}

__attribute__((noinline)) static void book_entry(size_t at, uint64_t entry) {
    memcpy(ledger + at, &entry, sizeof entry);
    if (msync(ledger + at / 4096 * 4096, 4096, MS_SYNC)) // culprit
        exit(1);
}

// Waits all the time, for nothing.
static void *idle_thread(void *nothing) {
    pthread_mutex_lock(&idle_lock);
    for (;;)
        pthread_cond_wait(&never, &idle_lock);
    return nothing;
}

int main(int argc, char **argv) {
    long entries = amount(argc, argv, 10000);
    double begin = seconds(), syncing = 0;
    pthread_t idle;
    pthread_create(&idle, NULL, idle_thread, NULL);
    FILE *file = scratch_file();
    if (ftruncate(fileno(file), SIZE))
        return 1;
    ledger = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (ledger == MAP_FAILED)
        return 1;
    for (long i = 0; i < entries; i++) {
        uint64_t entry = entry_of((uint64_t)i);
        double start = seconds();
        book_entry((size_t)(i * 64) % SIZE, entry);
        syncing += seconds() - start;
    }
    return tell(syncing, begin, ledger[64]);
}
