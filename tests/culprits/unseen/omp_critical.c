// Each result is added under an OpenMP critical section that also does the long work.
#include "hclock.h"
static uint64_t table[1024];
__attribute__((noinline)) static void add_result(uint64_t x) {
    #pragma omp critical(table_update)
    {
        for (int r = 0; r < 20; r++)
            for (int i = 0; i < 1024; i++)
                table[i] = (table[i] ^ x) * 31 + (table[i] >> 7); // HERE
    }
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 150000;
    #pragma omp parallel for num_threads(2) schedule(dynamic)
    for (long i = 0; i < n; i++) { uint64_t x = i; for (int k = 0; k < 2000; k++) x = mixed(x); add_result(x); }
    printf("%d\n", (int)(table[3] & 7)); CLOCK_SAY;
}
