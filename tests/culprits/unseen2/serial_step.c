// Two threads move particles; after each step one of them sorts all cells anew, and the other waits at the barrier.
#include "../own_clock.h"
#include <pthread.h>

enum { CELLS = 4096 };
static pthread_barrier_t step_done;
static uint64_t cells[CELLS], moved[2][8];
static long steps;
static double sorting;

__attribute__((noinline)) static void move_half(int half) {
    uint64_t state = moved[half][0];
    for (long i = 0; i < 90000; i++)
        state = scrambled(state + (uint64_t)i);
    moved[half][0] = state;
}

__attribute__((noinline)) static void order_cells(uint64_t seed) {
    for (int i = 0; i < CELLS; i++)
        cells[i] = scrambled(seed + (uint64_t)i);
    for (int i = 1; i < CELLS; i++) {
        uint64_t cell = cells[i];
        int k = i;
        for (; k > 0 && cells[k - 1] > cell; k--)
            cells[k] = cells[k - 1]; // culprit
        cells[k] = cell;
    }
}

static void *mover(void *half) {
    for (long step = 0; step < steps; step++) {
        move_half((int)(intptr_t)half);
        if (pthread_barrier_wait(&step_done) == PTHREAD_BARRIER_SERIAL_THREAD) {
            double start = seconds();
            order_cells((uint64_t)step);
            sorting += seconds() - start;
        }
        pthread_barrier_wait(&step_done);
    }
    return NULL;
}

int main(int argc, char **argv) {
    steps = amount(argc, argv, 420);
    double begin = seconds();
    pthread_barrier_init(&step_done, NULL, 2);
    pthread_t other;
    pthread_create(&other, NULL, mover, (void *)1);
    mover((void *)0);
    pthread_join(other, NULL);
    return tell(sorting, begin, (double)((moved[0][0] ^ cells[7]) % 1000));
}
