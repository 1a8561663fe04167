// A statically linked program that folds a block bit by bit.
#include "hclock.h"
__attribute__((noinline)) static uint32_t fold_block(const unsigned char *b, int n) {
    uint32_t h = ~0u;
    for (int i = 0; i < n; i++)
        for (int k = 0, c = b[i]; k < 8; k++, c >>= 1) // HERE
            h = (h >> 1) ^ (0xedb88320u & -((h ^ c) & 1)); // HERE
    return h;
}
__attribute__((noinline)) static void fill_block(unsigned char *b, int n, uint64_t x) { for (int i = 0; i < n; i++) b[i] = (unsigned char)mixed(x + i); }
int main(int argc, char **argv) {
    CLOCK_INIT; long blocks = argc > 1 ? atol(argv[1]) : 25000; unsigned char b[4096]; uint64_t sum = 0;
    for (long i = 0; i < blocks; i++) { fill_block(b, 4096, i); IN; sum += fold_block(b, 4096); OUT; }
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
