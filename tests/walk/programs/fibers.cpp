// A function that is open on two stacks of one thread; on the lower one it ends by an exception: fibers SECONDS.
#include "clock.h"
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>

static volatile unsigned long sum;
static ucontext_t thread, fiber;
static char stack[256 << 10];
static unsigned long thrown, caught;

static void compute(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 100; i++)
            sum = sum + i;
}

// Near the threshold: their caller is timed for a long time.
__attribute__((noinline)) static void more() { compute(0.00103); }
__attribute__((noinline)) static void less() { compute(0.00097); }

__attribute__((noinline)) static void serve(bool on_fiber) {
    more();
    less();
    compute(0.002);
    if (on_fiber) {
        swapcontext(&fiber, &thread);
        thrown++;
        throw 1;
    }
    sum = sum + 1;
}

static void run_fiber() {
    for (;;) {
        try {
            serve(true);
        } catch (int) {
            caught++;
        }
    }
}

int main(int argc, char **argv) {
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = sizeof stack;
    fiber.uc_link = nullptr;
    makecontext(&fiber, run_fiber, 0);
    double until = now() + (argc > 1 ? atof(argv[1]) : 3);
    while (now() < until) {
        swapcontext(&thread, &fiber);
        for (double pause = now() + 0.3; now() < pause;)
            serve(false);
    }
    printf("%lu thrown, %s\n", thrown, caught == thrown ? "all caught" : "not all caught");
    return caught != thrown;
}
