/* Spins by the time stamp counter, whose rate is measured once against the clock, and sums what it really took. */
#include <time.h>
#include <x86intrin.h>
static double ticks_per_ns;
static unsigned long spent, undisturbed;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
__attribute__((constructor)) static void calibrate(void) {
    long start = now();
    unsigned long ticks = __rdtsc();
    while (now() < start + 50000000) {}
    ticks_per_ns = (double)(__rdtsc() - ticks) / (double)(now() - start);
}
void spin_known(long ns) {
    unsigned long start = __rdtsc(), end = start + (unsigned long)(ns * ticks_per_ns), t;
    while ((t = __rdtsc()) < end) {}
    spent += t - start;
    undisturbed += t - start < 2 * (end - start) ? t - start : end - start; /* without what a preemption took */
}
void again(long depth, long ns);
/* Calls itself by way of the program: the time is that of the outermost call, in which the others are. */
void spin_deep(long depth, long ns) {
    static int inside;
    static unsigned long begin, wanted;
    if (!inside++) begin = __rdtsc(), wanted = (unsigned long)(depth * ns * ticks_per_ns);
    unsigned long end = __rdtsc() + (unsigned long)(ns * ticks_per_ns);
    while (__rdtsc() < end) {}
    if (depth > 1) again(depth - 1, ns);
    if (--inside) return;
    unsigned long took = __rdtsc() - begin;
    spent += took;
    undisturbed += took < 2 * wanted ? took : wanted;
}
long spin_truth(void) { return (long)(spent / ticks_per_ns); }
long spin_undisturbed(void) { return (long)(undisturbed / ticks_per_ns); }
