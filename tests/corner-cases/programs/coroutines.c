/* ucontext coroutines with calls open in each, resumed in changing order, some on another thread. */
#include "../libraries/callbacks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { COUNT = 200, STEPS = 40 };
static ucontext_t scheduler, coroutines[COUNT];
static ucontext_t *back;
static long sums[COUNT];
static int done[COUNT];
static int current;

static int yield_inside(int value) {
    int self = current;
    swapcontext(&coroutines[self], back);
    return value + self;
}
static void body(int self) {
    for (int step = 0; step < STEPS; step++) sums[self] += call_back_other(yield_inside, step) + plain(step);
    done[self] = 1;
    setcontext(back);
}
static void resume(int i) {
    current = i;
    swapcontext(back, &coroutines[i]);
}
static void *elsewhere(void *argument) {
    ucontext_t here;
    back = &here;
    for (int i = 1; i < COUNT; i += 2) if (!done[i]) resume(i);
    return argument;
}
int main(void) {
    back = &scheduler;
    for (int i = 0; i < COUNT; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack.ss_sp = malloc(65536);
        coroutines[i].uc_stack.ss_size = 65536;
        coroutines[i].uc_link = 0;
        makecontext(&coroutines[i], (void (*)(void))body, 1, i);
    }
    unsigned seed = 1;
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < COUNT; k++) {
            seed = seed * 1103515245 + 12345;
            int i = (int)(seed >> 8) % COUNT;
            if (!done[i]) resume(i);
        }
        pthread_t thread; /* a migration: the odd ones continue on another thread */
        pthread_create(&thread, 0, elsewhere, 0);
        pthread_join(thread, 0);
        back = &scheduler;
    }
    for (int left = 1; left;) {
        left = 0;
        for (int i = COUNT - 1; i >= 0; i--) if (!done[i]) resume(i), left = 1;
    }
    long total = 0;
    for (int i = 0; i < COUNT; i++) total += sums[i] * (i + 1);
    printf("%ld\n", total);
    return 0;
}
