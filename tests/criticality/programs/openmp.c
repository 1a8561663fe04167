// An OpenMP loop whose last iterations cost most: a static schedule leaves one thread with them.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>

__attribute__((noinline)) static uint64_t iterate(uint64_t x, long rounds) {
    for (long i = 0; i < rounds; i++)
        x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

int main(void) {
    uint64_t sum = 0;
    double work[64] = {0}, begin = omp_get_wtime();
    for (int step = 0; step < 25; step++) {
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (int i = 0; i < 8; i++) {
            double at = omp_get_wtime();
            sum += iterate(i, i < 4 ? 300000 : 3000000);
            work[omp_get_thread_num()] += omp_get_wtime() - at;
        }
    }
    fprintf(stderr, "sum %llu\n", (unsigned long long)sum);
    printf("elapsed %.6f threads %d work %.6f %.6f\n", omp_get_wtime() - begin, omp_get_max_threads(), work[0], work[1]);
}
