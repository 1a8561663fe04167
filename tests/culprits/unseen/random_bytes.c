// Asks the kernel for each random byte.
#include "hclock.h"
#include <sys/random.h>
__attribute__((noinline)) static unsigned next_random(void) {
    unsigned char b;
    IN;
    if (getrandom(&b, 1, 0) != 1) abort(); // HERE
    OUT;
    return b;
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 4000000; uint64_t x = 1;
    for (long i = 0; i < n; i++) { for (int k = 0; k < 10; k++) x = mixed(x); x += next_random(); }
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
