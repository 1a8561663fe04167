// A grid is relaxed in steps with a barrier after each; one thread's part has the boundary, which is slow. Fix: the
// boundary is set once.
#include "truth.h"
#include "work.h"

enum { THREADS = 4, STEPS = 60 };
static pthread_barrier_t step_done;
static uint64_t grid[THREADS];
static int fixed;

__attribute__((noinline)) static void relax_boundary(uint64_t *part) { *part = mixed(*part, 10 * MILLISECOND); }
__attribute__((noinline)) static void relax_interior(uint64_t *part) { *part = mixed(*part, 2 * MILLISECOND); }

static void *solve(void *argument) {
    int number = (int)(intptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, number ? "solver-%d" : "edge-solver", number);
    truth_name(name);
    for (int step = 0; step < STEPS; step++) {
        relax_interior(&grid[number]);
        if (number == 0 && !fixed)
            relax_boundary(&grid[number]);
        pthread_barrier_wait(&step_done);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    pthread_barrier_init(&step_done, NULL, THREADS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, solve, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth_print("barrier", "relax_boundary", "step_done", "edge-solver", -1);
}
