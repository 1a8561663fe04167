/* Reading the clock, and printing results: a line "name value" for each figure. */
#ifndef TICKS_H
#define TICKS_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

static inline uint64_t ticks(void) {
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
}

static int compare(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

static inline double median(double *values, int n) {
    qsort(values, n, sizeof *values, compare);
    return values[n / 2];
}

/* Mean without the largest tenth, in which interrupts are. For clocks that advance in steps, where medians don't tell. */
static inline double quiet_mean(double *values, int n) {
    qsort(values, n, sizeof *values, compare);
    double sum = 0;
    for (int i = 0; i < n - n / 10; i++) sum += values[i];
    return sum / (n - n / 10);
}

/* Ticks that two readings show with nothing in between. */
static inline double empty_interval(void) {
    double values[2000];
    for (int i = 0; i < 2000; i++) {
        uint64_t start = ticks();
        values[i] = (double)(ticks() - start);
    }
    return quiet_mean(values, 2000);
}

static inline void result(const char *name, double value) { printf("%s %.3f\n", name, value); }

typedef long (*function)(long, long);

/* Ticks of a call by pointer: least of several batches. */
static inline double call_cost(volatile function f, int calls) {
    double least = 1e18;
    for (int round = 0; round < 20; round++) {
        function g = f;
        uint64_t start = ticks();
        for (int i = 0; i < calls; i++) g(i, 1);
        double cost = (double)(ticks() - start) / calls;
        if (cost < least) least = cost;
    }
    return least;
}
#endif
