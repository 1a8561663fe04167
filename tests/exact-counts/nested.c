/* Calls a library that calls another one: nested CALLS NANOSECONDS. Prints the first one's own time and all of it, ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>
void nested(long ns);
void again(long depth, long ns) { (void)depth, (void)ns; } /* libspin asks for it */
unsigned long nested_own(void), nested_all(void);
int main(int argc, char **argv) {
    struct timespec from, to;
    long calls = atol(argv[1]), ns = atol(argv[2]);
    (void)argc;
    clock_gettime(CLOCK_MONOTONIC, &from);
    unsigned long begin = __rdtsc();
    for (long i = 0; i < calls; i++) nested(ns);
    unsigned long ticks = __rdtsc() - begin;
    clock_gettime(CLOCK_MONOTONIC, &to);
    double per_tick = ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / ticks;
    printf("%.0f %.0f\n", nested_own() * per_tick, nested_all() * per_tick);
    return 0;
}
