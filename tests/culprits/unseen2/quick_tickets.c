// Two threads draw a ticket from one atomic counter for each small item.
#include "../own_clock.h"
#include <pthread.h>
#include <stdatomic.h>

static _Alignas(64) atomic_ulong tickets;
static _Alignas(64) long items;
static uint64_t sums[2][8];

static inline uint64_t handled(uint64_t ticket) { return ticket ^ (ticket >> 7); }

__attribute__((noinline)) static unsigned long next_ticket(void) {
    return atomic_fetch_add(&tickets, 1); // culprit
}

static void *clerk(void *number) {
    uint64_t sum = 0;
    for (long i = 0; i < items; i++)
        sum += handled(next_ticket());
    sums[(intptr_t)number][0] = sum;
    return NULL;
}

__attribute__((noinline)) static unsigned long same_ticket(unsigned long i) {
    __asm__ volatile("" : "+r"(i));
    return i;
}

int main(int argc, char **argv) {
    items = amount(argc, argv, 40000000);
    double begin = seconds();
    pthread_t other;
    pthread_create(&other, NULL, clerk, (void *)1);
    clerk((void *)0);
    pthread_join(other, NULL);
    // What is left without the counter, by a tenth of the items.
    double start = seconds();
    uint64_t sum = 0;
    for (long i = 0; i < items / 10; i++)
        sum += handled(same_ticket((unsigned long)i));
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, (double)((sum ^ sums[0][0] ^ sums[1][0]) & 7));
}
