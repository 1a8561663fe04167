// Throws all the time, through many calls whose destructors take their time: unwinding SECONDS.
#include "clock.h"
#include <cstdio>
#include <cstdlib>

static volatile unsigned long sum;

static void compute(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 100; i++)
            sum = sum + i;
}

struct Guard {
    double seconds;
    __attribute__((noinline)) ~Guard() { compute(seconds); }
};

// Each call takes the unwinder a microsecond, twice.
__attribute__((noinline)) static void descend(int depth) {
    Guard guard{depth % 100 == 0 ? 0.001 : 0};
    if (depth == 0)
        throw 1;
    descend(depth - 1);
    sum = sum + 1;
}

// Near the threshold: their caller is timed for a long time.
__attribute__((noinline)) static void more() { compute(0.00103); }
__attribute__((noinline)) static void less() { compute(0.00097); }

__attribute__((noinline)) static void handle() {
    Guard guard{0.001};
    more();
    less();
    descend(1000);
    sum = sum + 1;
}

__attribute__((noinline)) static void serve() {
    more();
    handle();
    sum = sum + 1;
}

int main(int argc, char **argv) {
    unsigned long caught = 0, thrown = 0;
    double until = now() + (argc > 1 ? atof(argv[1]) : 3);
    while (now() < until) {
        try {
            thrown++;
            serve();
        } catch (int) {
            caught++;
        }
    }
    printf("%lu thrown, %s\n", thrown, caught == thrown ? "all caught" : "not all caught");
    return caught != thrown;
}
