// What a program's own clock says of its culprit, printed as one line of JSON when it ends. C and C++.
#ifndef OWN_CLOCK_H
#define OWN_CLOCK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How much to do: the first argument, or what takes two or three seconds. */
static inline long amount(int argc, char **argv, long otherwise) { return argc > 1 ? atol(argv[1]) : otherwise; }

/* The exit status. `result` is what the work gave, so that no compiler leaves the work out. */
static inline int tell(double culprit, double begin, double result) {
    printf("{\"culprit_s\": %.4f, \"wall_s\": %.4f, \"result\": %g}\n", culprit, seconds() - begin, result);
    return fflush(stdout) ? 1 : 0;
}

/* A new file on the disk that is gone when the program ends. */
static inline FILE *scratch_file(void) {
    char path[] = "/var/tmp/culprit-XXXXXX";
    int descriptor = mkstemp(path);
    if (descriptor < 0) {
        perror(path);
        exit(1);
    }
    unlink(path);
    return fdopen(descriptor, "w+");
}

/* A number that is different for each `x`, to make input of. */
static inline uint64_t scrambled(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}
#endif
