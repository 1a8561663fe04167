// Programs count how often they enter a region and say so on standard output: `entered K TIMES` for the region whose
// decision has the comment `region K {FEATURES}`.
#ifndef TRUTH_H
#define TRUTH_H
#include <stdio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
extern long entered[16];
#define ENTERED(k) ((void)__atomic_fetch_add(&entered[k], 1, __ATOMIC_RELAXED))

static inline void say_truth(void) {
    for (int k = 1; k < 16; k++)
        if (entered[k])
            printf("entered %d %ld\n", k, entered[k]);
    fflush(stdout);
}
#ifdef __cplusplus
}
#endif
#endif
