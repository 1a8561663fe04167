/* Calls one function with durations of a distribution that few long ones dominate: tails KIND MEAN_NS SHAPE CALLS.
 * twopoint: one call in SHAPE takes half of the time; pareto: of that shape. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void spin_known(long ns);
long spin_truth(void);
long spin_undisturbed(void);
void again(long depth, long ns) { (void)depth, (void)ns; }
static uint64_t state = 88172645463325252u;
static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((state >> 11) + 0.5) / 9007199254740992.0;
}
int main(int argc, char **argv) {
    double mean = atof(argv[2]), shape = atof(argv[3]);
    for (long calls = argc > 4 ? atol(argv[4]) : 0; calls > 0; calls--) {
        double ns = strcmp(argv[1], "pareto") ? (uniform() < 1 / shape ? mean * shape : mean) / 2 : mean * (shape - 1) / shape * pow(uniform(), -1 / shape);
        spin_known(ns < 2e7 ? (long)ns : 20000000);
    }
    printf("%ld %ld\n", spin_truth(), spin_undisturbed());
    return 0;
}
