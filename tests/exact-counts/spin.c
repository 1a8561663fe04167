/* A callee that spins a known time by the clock: spin CALLS NANOSECONDS [DEPTH]. */
#include <stdio.h>
#include <stdlib.h>
void spin_known(long ns);
void spin_deep(long depth, long ns);
long spin_truth(void);
long spin_undisturbed(void);
void again(long depth, long ns) {
    spin_deep(depth, ns);
    __asm__ volatile(""); /* no tail call, whose callee shares the frame */
}
int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 1000, ns = argc > 2 ? atol(argv[2]) : 10000;
    long depth = argc > 3 ? atol(argv[3]) : 0;
    for (long i = 0; i < calls; i++)
        if (depth) again(depth, ns);
        else spin_known(ns);
    printf("%ld %ld\n", spin_truth(), spin_undisturbed());
    return 0;
}
