// Workers are forked at the start and draw the parts of a picture. One of them has the sky, which takes much longer.
#include "../own_clock.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { WORKERS = 4 };
static double *drawing;
static uint64_t *drawn;

__attribute__((noinline)) static uint64_t draw_ground(uint64_t row) {
    for (long i = 0; i < 300000; i++)
        row = scrambled(row + (uint64_t)i);
    return row;
}

__attribute__((noinline)) static uint64_t draw_sky(uint64_t row) {
    for (long i = 0; i < 5000000; i++)
        row = scrambled(row ^ (uint64_t)i); // culprit
    return row;
}

static void work(int worker, long rows) {
    for (long row = 0; row < rows; row++) {
        if (worker == 2) {
            double start = seconds();
            drawn[worker] += draw_sky((uint64_t)row);
            *drawing += seconds() - start;
        } else {
            drawn[worker] += draw_ground((uint64_t)row);
        }
    }
    _exit(0);
}

int main(int argc, char **argv) {
    long rows = amount(argc, argv, 60);
    double begin = seconds();
    drawing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    drawn = (uint64_t *)(drawing + 64);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            work(i, rows);
    while (wait(NULL) > 0)
        ;
    return tell(*drawing, begin, (double)(drawn[2] % 1000));
}
