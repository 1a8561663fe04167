// Adds up a long list by recursion, a frame for each of 60000 elements.
#include "hclock.h"
struct item { struct item *rest; uint64_t value; };
__attribute__((noinline, optimize("no-optimize-sibling-calls"))) static uint64_t sum_rest(struct item *i) {
    if (!i) return 0;
    return sum_rest(i->rest) * 31 + i->value; // HERE
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long rounds = argc > 1 ? atol(argv[1]) : 7000; enum { N = 60000 }; struct item *items = calloc(N, sizeof *items); uint64_t sum = 0, x = 0;
    for (int i = 0; i < N; i++) { items[i].rest = i + 1 < N ? &items[i + 1] : NULL; items[i].value = mixed(i); }
    for (long r = 0; r < rounds; r++) { IN; sum += sum_rest(items); OUT; for (int k = 0; k < 16000; k++) x = mixed(x + k); }
    printf("%d\n", (int)((sum + x) & 7)); CLOCK_SAY;
}
