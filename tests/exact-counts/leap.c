/* Calls a function that goes on by jumps between two libraries: leap CALLS DEPTH STEPS. Prints how long, ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long leap_one(long left, long steps);
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
int main(int argc, char **argv) {
    (void)argc;
    long took = 0;
    for (long i = atol(argv[1]); i > 0; i--) {
        long start = now();
        leap_one(atol(argv[2]), atol(argv[3]));
        took += now() - start;
    }
    printf("%ld\n", took);
    return 0;
}
