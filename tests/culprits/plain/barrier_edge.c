// Workers meet at a barrier after each step. One of them also does the edge of the field, which is long.
#include "../own_clock.h"
#include <pthread.h>

enum { WORKERS = 4, CELLS = 1000 };
static pthread_barrier_t step_end;
static uint64_t field[WORKERS][CELLS];
static long steps;
static double in_edge;

static void solve_part(uint64_t *cells) {
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < CELLS; i++)
            cells[i] = scrambled(cells[i] + 1);
}

__attribute__((noinline)) static void solve_edge(uint64_t *cells) {
    for (int round = 0; round < 1000; round++)
        for (int i = 0; i < CELLS; i++)
            cells[i] = scrambled(cells[i] ^ (uint64_t)round); // culprit
}

static void *worker(void *argument) {
    int number = (int)(intptr_t)argument;
    for (long step = 0; step < steps; step++) {
        solve_part(field[number]);
        if (number == WORKERS - 1) {
            double start = seconds();
            solve_edge(field[number]);
            in_edge += seconds() - start;
        }
        pthread_barrier_wait(&step_end);
    }
    return NULL;
}

int main(int argc, char **argv) {
    steps = amount(argc, argv, 1000);
    double begin = seconds();
    pthread_t threads[WORKERS];
    pthread_barrier_init(&step_end, NULL, WORKERS);
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    return tell(in_edge, begin, (double)(field[WORKERS - 1][5] % 1000));
}
