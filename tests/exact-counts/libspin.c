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
/* Ticks of a call that its callee can't measure: the call itself, and one reading of the counter. */
static unsigned long around, calls;
static __attribute__((noinline)) void spin(unsigned long ticks) {
    unsigned long start = __rdtsc(), end = start + ticks, t;
    while ((t = __rdtsc()) < end) {}
    spent += t - start;
    undisturbed += t - start < 2 * (end - start) ? t - start : end - start; /* without what a preemption took */
}
__attribute__((constructor)) static void calibrate(void) {
    long start = now();
    unsigned long ticks = __rdtsc();
    while (now() < start + 50000000) {}
    ticks_per_ns = (double)(__rdtsc() - ticks) / (double)(now() - start);
    around = ~0ul;
    for (int batch = 0; batch < 20; batch++) {
        spent = 0;
        unsigned long begin = __rdtsc();
        for (int i = 0; i < 500; i++) spin(400);
        unsigned long outside = (__rdtsc() - begin - spent) / 500;
        if (outside < around) around = outside;
    }
    spent = undisturbed = 0;
}
void spin_known(long ns) {
    calls++;
    spin((unsigned long)(ns * ticks_per_ns));
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
    calls++;
    unsigned long took = __rdtsc() - begin;
    spent += took;
    undisturbed += took < 2 * wanted ? took : wanted;
}
long spin_truth(void) { return (long)((spent + calls * around) / ticks_per_ns); }
long spin_undisturbed(void) { return (long)(undisturbed / ticks_per_ns); }
