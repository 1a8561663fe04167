// Maps a fresh area for each frame and touches a byte of each of its pages.
#include "hclock.h"
#include <sys/mman.h>
__attribute__((noinline)) static uint64_t sample_frame(size_t size) {
    uint64_t sum = 0;
    IN;
    unsigned char *f = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // HERE
    madvise(f, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096)
        sum += ++f[i]; // HERE
    munmap(f, size); // HERE
    OUT;
    return sum;
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 50; uint64_t x = 1;
    for (long i = 0; i < n; i++) { for (int k = 0; k < 500000; k++) x = mixed(x); x += sample_frame(64u << 20); }
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
