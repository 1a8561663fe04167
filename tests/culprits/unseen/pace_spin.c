// Waits for the time of each packet by asking the clock over and over.
#include "hclock.h"
__attribute__((noinline)) static void await_slot(uint64_t slot_ns) {
    struct timespec t;
    IN;
    do
        clock_gettime(CLOCK_MONOTONIC, &t); // HERE
    while ((uint64_t)t.tv_sec * 1000000000 + t.tv_nsec < slot_ns); // HERE
    OUT;
}
__attribute__((noinline)) static uint64_t build_packet(uint64_t x) { for (int k = 0; k < 20000; k++) x = mixed(x); return x; }
int main(int argc, char **argv) {
    CLOCK_INIT;
    long packets = argc > 1 ? atol(argv[1]) : 4000; uint64_t x = 0; struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); uint64_t slot = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    for (long i = 0; i < packets; i++) { x = build_packet(x + i); await_slot(slot += 400000); }
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
