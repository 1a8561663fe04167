// Runs tasks as fibers that yield after each small step. swapcontext also sets the signal mask, by a system call.
#include "../own_clock.h"
#include <ucontext.h>

enum { FIBERS = 8 };
static ucontext_t scheduler, fibers[FIBERS];
static char stacks[FIBERS][65536];
static uint64_t results[FIBERS];
static int current;
static long steps;

__attribute__((noinline)) static void yield_fiber(void) {
    swapcontext(&fibers[current], &scheduler); // culprit
}

__attribute__((noinline)) static void resume_fiber(int fiber) {
    current = fiber;
    swapcontext(&scheduler, &fibers[fiber]); // culprit
}

__attribute__((noinline)) static uint64_t small_step(uint64_t state) {
    for (int i = 0; i < 20; i++)
        state = scrambled(state + 1);
    return state;
}

static void task(int fiber) {
    for (long i = 0; i < steps; i++) {
        results[fiber] = small_step(results[fiber]);
        yield_fiber();
    }
}

int main(int argc, char **argv) {
    steps = amount(argc, argv, 300000);
    double begin = seconds();
    for (int i = 0; i < FIBERS; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = sizeof stacks[i];
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], (void (*)(void))task, 1, i);
    }
    for (long i = 0; i < steps; i++)
        for (int k = 0; k < FIBERS; k++)
            resume_fiber(k);
    // What is left without the switches, by a tenth of the steps.
    double start = seconds();
    for (long i = 0; i < steps / 10 * FIBERS; i++)
        results[0] = small_step(results[0]);
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, (double)(results[0] % 1000));
}
