// Two threads count votes, each in its own counter, but the counters share a cache line.
#include "hclock.h"
#include <pthread.h>
static struct { volatile long yes[2]; } tally;
static long votes = 900000000;
__attribute__((noinline)) static void count_votes(int who, long n) {
    IN;
    for (long i = 0; i < n; i++)
        tally.yes[who]++; // HERE
    if (who == 0) OUT;
}
static uint64_t prepare(uint64_t x) { for (int i = 0; i < 40000000; i++) x = mixed(x); return x; }
static void *booth(void *p) { count_votes((int)(intptr_t)p, votes); return NULL; }
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) votes = atol(argv[1]);
    uint64_t x = prepare(3);
    pthread_t t[2];
    for (intptr_t i = 0; i < 2; i++) pthread_create(&t[i], NULL, booth, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    printf("%ld %d\n", tally.yes[0] + tally.yes[1], (int)(x & 1));
    CLOCK_SAY;
}
