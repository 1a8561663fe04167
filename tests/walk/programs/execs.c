// Computes, and becomes another program after a third of the time, which computes elsewhere: execs SECONDS [second].
#define _GNU_SOURCE
#include "clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile unsigned long sum;

static void compute(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 100; i++)
            sum = sum + i;
}

// Near the threshold: their callers are timed for a long time.
#define PHASE(name) \
    __attribute__((noinline)) static void name##_more(void) { compute(0.0000206); } \
    __attribute__((noinline)) static void name##_less(void) { compute(0.0000194); } \
    __attribute__((noinline)) static void name##_phase(void) { \
        name##_more(); \
        name##_less(); \
        compute(0.00004); \
    }
PHASE(first)
PHASE(second)

int main(int argc, char **argv) {
    int second = argc > 2;
    double seconds = argc > 1 ? atof(argv[1]) : 3, until = now() + seconds / 3 * (1 + second);
    while (now() < until)
        (second ? second_phase : first_phase)();
    if (!second) {
        execl("/proc/self/exe", "execs", argv[1], "second", NULL);
        return 1;
    }
    printf("over\n");
    return 0;
}
