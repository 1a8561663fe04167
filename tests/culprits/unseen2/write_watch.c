// Learns which pages were written by taking away the right to write, so that the first store to each is a fault.
#include "../own_clock.h"
#include <signal.h>
#include <sys/mman.h>

enum { PAGES = 512, PAGE = 4096 };
static unsigned char *store;
static unsigned char dirty[PAGES];

static void note_dirty(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    size_t page = ((size_t)info->si_addr - (size_t)store) / PAGE;
    dirty[page] = 1;
    mprotect(store + page * PAGE, PAGE, PROT_READ | PROT_WRITE); // culprit
}

__attribute__((noinline)) static void watch_again(void) {
    memset(dirty, 0, sizeof dirty);
    mprotect(store, PAGES * PAGE, PROT_READ); // culprit
}

__attribute__((noinline)) static void put_row(long row, uint64_t value) {
    memcpy(store + (size_t)row * PAGE + value % 4000, &value, sizeof value); // culprit
}

__attribute__((noinline)) static uint64_t row_of(uint64_t number) {
    for (int i = 0; i < 100; i++)
        number = scrambled(number);
    return number;
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 900);
    double begin = seconds(), watching = 0, sum = 0;
    store = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(store, 1, PAGES * PAGE);
    struct sigaction action = {.sa_sigaction = note_dirty, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    for (long round = 0; round < rounds; round++) {
        uint64_t rows[PAGES];
        for (int i = 0; i < PAGES; i++)
            rows[i] = row_of((uint64_t)(round * PAGES + i));
        double start = seconds();
        watch_again();
        for (int i = 0; i < PAGES; i++)
            put_row(i, rows[i]);
        watching += seconds() - start;
        sum += dirty[round % PAGES];
    }
    return tell(watching, begin, sum);
}
