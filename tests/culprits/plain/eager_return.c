// Draws lines in memory that the allocator gives back to the kernel after each, as it was told to.
#include "../own_clock.h"
#include <malloc.h>

enum { SIZE = 120000 };
static double drawing;

/* Turns a line into what is kept of it. */
__attribute__((noinline)) static uint64_t pack_line(const uint32_t *line) {
    uint64_t packed = 0;
    for (size_t i = 0; i < SIZE / sizeof *line; i += 16)
        packed = packed * 31 + line[i];
    return packed;
}

__attribute__((noinline)) static uint64_t draw_line(long number) {
    uint32_t *line = malloc(SIZE); // culprit
    for (size_t i = 0; i < SIZE / sizeof *line; i += 16)
        line[i] = (uint32_t)number + (uint32_t)i; // culprit
    uint64_t packed = pack_line(line);
    free(line); // culprit
    return packed;
}

int main(int argc, char **argv) {
    long lines = amount(argc, argv, 70000);
    mallopt(M_TRIM_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
    double begin = seconds(), packing = 0, sum = 0;
    for (long i = 0; i < lines; i++) {
        double start = seconds();
        sum += (double)(draw_line(i) % 1000);
        drawing += seconds() - start;
    }
    // Packing is no part of the culprit: the same again in memory that is kept.
    uint32_t *line = calloc(1, SIZE);
    for (long i = 0; i < lines / 100; i++) {
        double start = seconds();
        sum += (double)(pack_line(line) % 1000);
        packing += 100 * (seconds() - start);
    }
    free(line);
    return tell(drawing - packing, begin, sum);
}
