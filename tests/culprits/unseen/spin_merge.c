// Threads merge their counts under a spin lock that is held for long.
#include "hclock.h"
#include <pthread.h>
#include <stdatomic.h>
static atomic_flag merge_flag = ATOMIC_FLAG_INIT; static uint64_t totals[4096]; static long rounds = 2000; static double held_;
__attribute__((noinline)) static void merge_counts(const uint64_t *mine) {
    while (atomic_flag_test_and_set(&merge_flag)) ; // HERE
    double t = timing_ ? now_() : 0;
    for (int r = 0; r < 60; r++)
        for (int i = 0; i < 4096; i++)
            totals[i] = (totals[i] ^ mine[i & 63]) * 31 + (totals[i] >> 7); // HERE
    if (timing_) held_ += now_() - t;
    atomic_flag_clear(&merge_flag);
}
static void *counter(void *p) {
    uint64_t mine[64] = {0}, x = (uintptr_t)p;
    for (long r = 0; r < rounds; r++) { for (int k = 0; k < 60000; k++) { x = mixed(x + k); mine[x & 63]++; } merge_counts(mine); }
    return NULL;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) rounds = atol(argv[1]);
    pthread_t t[3];
    for (intptr_t i = 0; i < 3; i++) pthread_create(&t[i], NULL, counter, (void *)(i + 1));
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    spent_ = held_;
    printf("%d\n", (int)(totals[9] & 7)); CLOCK_SAY;
}
