// Work that takes about as long everywhere: a chain of dependent multiplications.
#ifndef WORK_H
#define WORK_H
#include <stdint.h>
#define MICROSECOND 600L /* rounds */
#define MILLISECOND (1000 * MICROSECOND)

static inline uint64_t mixed(uint64_t x, long rounds) {
    for (long i = 0; i < rounds; i++)
        x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    __asm__ volatile("" : "+r"(x)); // never left out
    return x;
}
#endif
