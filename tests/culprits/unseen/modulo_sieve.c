// Finds primes by dividing by every number below.
#include "hclock.h"
__attribute__((noinline)) static int is_prime(uint64_t n) {
    for (uint64_t d = 2; d * d <= n; d++)
        if (n % d == 0) return 0; // HERE
    return 1;
}
__attribute__((noinline)) static uint64_t next_candidate(uint64_t i) { uint64_t x = i; for (int k = 0; k < 300; k++) x = mixed(x); return x; }
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 90000; uint64_t x = 0; long primes = 0;
    for (long i = 0; i < n; i++) { x ^= next_candidate(i); IN; primes += is_prime(10000000000ULL + 2 * i + 1); OUT; }
    printf("%ld %d\n", primes, (int)(x & 1)); CLOCK_SAY;
}
