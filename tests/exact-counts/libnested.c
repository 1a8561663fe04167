/* A call that works a quarter of its time itself, and leaves the rest to another library. */
#include <x86intrin.h>
void spin_known(long ns);
static unsigned long own, all;
void nested(long ns) {
    unsigned long begin = __rdtsc(), end = begin + (unsigned long)ns / 2, t; /* some 2 to 3 ticks a nanosecond */
    while ((t = __rdtsc()) < end) {}
    own += t - begin;
    spin_known(ns - ns / 4);
    all += __rdtsc() - begin;
}
unsigned long nested_own(void) { return own; }
unsigned long nested_all(void) { return all; }
