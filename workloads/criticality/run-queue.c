// Eight threads render rows, all bound to the first of the allowed CPUs by a left-over setting. Fix: unbound.
#include "truth.h"
#include "work.h"
#include <sched.h>

enum { THREADS = 8, ROWS = 24 };
static uint64_t row[THREADS][ROWS];

__attribute__((noinline)) static void render_row(uint64_t *pixel, int number) { *pixel = mixed(number, 4 * MILLISECOND); }

static void *render(void *argument) {
    int number = (int)(intptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "renderer-%d", number);
    truth_name(name);
    for (int i = 0; i < ROWS; i++)
        render_row(&row[number][i], i);
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    if (!truth_begin(argc, argv)) {
        cpu_set_t all, first;
        sched_getaffinity(0, sizeof all, &all);
        CPU_ZERO(&first);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) == 0; i++)
            if (CPU_ISSET(i, &all))
                CPU_SET(i, &first);
        sched_setaffinity(0, sizeof first, &first);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, render, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth_print("run-queue", "render_row", "", "renderer", 0);
}
