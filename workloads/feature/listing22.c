// Two features and their interaction: four regions, of which one lies inside of another (after listing 2.2 of the thesis).
// Time in units: {} = 1, A = 2, B = 2, A and B = 7.
// Says at its end what each region took by its own clock: the machine may have given the CPU to others meanwhile.
// Usage: listing22 [a] [b] [unit=MILLISECONDS]
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long unit_ns = 20 * 1000 * 1000;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long took[5];

// Spins, so that wall time and CPU time agree.
__attribute__((noinline)) static void work(int region, int units) {
    long start = now(), end = start + units * unit_ns, at;
    while ((at = now()) < end)
        ;
    took[region] += at - start;
}

int main(int argc, char **argv) {
    bool A = false, B = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "a") == 0)
            A = true;
        else if (strcmp(argv[i], "b") == 0)
            B = true;
        else if (strncmp(argv[i], "unit=", 5) == 0)
            unit_ns = atol(argv[i] + 5) * 1000000L;
    }
    work(0, 1);
    if (A) // region 1 {A}
        work(1, 1);
    if (A && B) // region 2 {A,B}
        work(2, 2);
    if (B) { // region 3 {B}
        work(3, 1);
        if (A) // region 4 {A}
            work(4, 2);
    }
    took[3] += took[4];
    for (int region = 1; region <= 4; region++)
        printf("took %d %ld\n", region, took[region]);
    puts("done");
    return 0;
}
