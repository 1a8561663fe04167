// A loop in a loop that do nothing (after the thesis' SimpleBusyLoop): what one event costs, since there is nothing else.
// Usage: simple-busy-loop ITERATIONS COUNT
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long iterations = argc > 1 ? atol(argv[1]) : 1000;
    long count = argc > 2 ? atol(argv[2]) : 1000;
    for (long i = 0; i < iterations; i++) { // region 1 {iterations}
        for (long j = 0; j < count; j++) // region 2 {count}
            __asm__ volatile("" : "+r"(j));
    }
    puts("done");
    return 0;
}
