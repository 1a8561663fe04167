/* Callbacks that call the library again. reenter FLAT DEEP DEPTH TREES LEVELS: so many calls that call back once without
   another call, chains of calls inside each other, and trees with two calls inside each. Prints what the outermost calls took, ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void reenter(long ns, void (*back)(void *), void *argument);
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void nothing(void *argument) { (void)argument; }
static void chain(void *left) {
    if (left) reenter(150, chain, (char *)left - 1);
}
static void tree(void *levels) {
    if (!levels) return;
    reenter(150, tree, (char *)levels - 1);
    reenter(150, tree, (char *)levels - 1);
}
int main(int argc, char **argv) {
    long flat = atol(argv[1]), deep = atol(argv[2]), depth = atol(argv[3]), trees = atol(argv[4]), levels = atol(argv[5]), took = -now();
    (void)argc;
    for (long i = 0; i < flat; i++) reenter(150, nothing, 0);
    for (long i = 0; i < deep; i++) chain((void *)depth);
    for (long i = 0; i < trees; i++) tree((void *)levels);
    took += now();
    /* As long outside: an estimate that is too high has room. */
    for (long until = now() + 2 * took; now() < until;) {}
    printf("%ld\n", took);
    return 0;
}
