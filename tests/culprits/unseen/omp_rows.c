// OpenMP gives each thread an equal number of rows, but the rows of the second half are far longer.
#include "hclock.h"
static uint64_t out[4000];
__attribute__((noinline)) static uint64_t smooth_row(uint64_t seed, long length) {
    for (long k = 0; k < length; k++)
        seed = mixed(seed + k); // HERE
    return seed;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long rows = argc > 1 ? atol(argv[1]) : 4000;
    IN;
    #pragma omp parallel for schedule(static) num_threads(2)
    for (long r = 0; r < rows; r++)
        out[r % 4000] = smooth_row(r, r < rows / 2 ? 10000 : 150000);
    OUT;
    printf("%d\n", (int)(out[7] & 7)); CLOCK_SAY;
}
