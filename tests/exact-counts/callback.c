// Functions that a library calls back call the library again. Prints what the outer and the inner calls took, and what the program
// did itself in between, ns by its own clock.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long leaf(long n);
long for_each(long n, long (*visit)(long));
static long inner, own;
static volatile long sum;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long visit(long i) {
    long begin = now();
    for (long n = 0; n < 4000; n++) sum += n;
    long middle = now();
    leaf(8000);
    own += middle - begin;
    inner += now() - middle;
    return i;
}
int main(int argc, char **argv) {
    (void)argc;
    long begin = now();
    for (long i = 0; i < atol(argv[1]); i++) for_each(100, visit);
    printf("%ld %ld %ld\n", now() - begin, inner, own);
    return 0;
}
