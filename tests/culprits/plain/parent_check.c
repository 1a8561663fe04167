// Asks the kernel before each item whether the parent is still there and what time it is.
#include "../own_clock.h"
#include <sys/syscall.h>

static pid_t parent;
static long orphaned;

__attribute__((noinline)) static uint64_t work_item(uint64_t item) {
    for (int i = 0; i < 20; i++)
        item = scrambled(item + 1);
    return item;
}

__attribute__((noinline)) static int parent_alive(void) {
    return getppid() == parent; // culprit
}

/* Items, and in `checking` the seconds that the checks took: one in 64 stands for the others. */
static uint64_t work(long items, double *checking) {
    uint64_t sum = 0;
    for (long i = 0; i < items; i++) {
        int timed = i % 64 == 0, alive = 1;
        double start = timed ? seconds() : 0;
        for (int k = 0; k < 4; k++)
            alive &= parent_alive();
        if (timed)
            *checking += 64 * (seconds() - start);
        if (!alive)
            orphaned++;
        sum += work_item((uint64_t)i) % 10;
    }
    return sum;
}

int main(int argc, char **argv) {
    long items = amount(argc, argv, 5000000);
    double begin = seconds(), checking = 0;
    parent = getppid();
    uint64_t sum = work(items, &checking);
    return tell(checking, begin, (double)sum + (double)(orphaned > 0));
}
