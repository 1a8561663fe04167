// Threads enter regions of their own, at the same time, one of them in a recursive function.
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>

long entered[16];
static int fast, deep;

__attribute__((noinline)) static int descend(int depth) {
    if (deep) { // region 2 {deep}
        ENTERED(2);
        if (depth > 0)
            return descend(depth - 1) + 1;
    }
    return 0;
}

static void *worker(void *argument) {
    long rounds = (long)argument, sum = 0;
    for (long i = 0; i < rounds; i++) {
        if (fast) { // region 1 {fast}
            ENTERED(1);
            sum += descend(3);
            usleep(0);
        }
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    fast = argc > 1 && atoi(argv[1]);
    deep = argc > 2 && atoi(argv[2]);
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, worker, (void *)(100 + 10 * i));
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], 0);
    say_truth();
    return 0;
}
