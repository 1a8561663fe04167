/* A callee that spins a known time by the clock: spin CALLS NANOSECONDS. */
#include <stdio.h>
#include <stdlib.h>
void spin_known(long ns);
long spin_truth(void);
long spin_undisturbed(void);
int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 1000, ns = argc > 2 ? atol(argv[2]) : 10000;
    for (long i = 0; i < calls; i++) spin_known(ns);
    printf("%ld %ld\n", spin_truth(), spin_undisturbed());
    return 0;
}
