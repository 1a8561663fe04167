/* Functions of several shapes, for every provider. */
#include <stdio.h>
#include <stdlib.h>

int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * i;
    return sum;
}

static int __attribute__((noinline)) helper(int n) { return work(n) + 1; }

int tail(int n) { return work(n + 2); }

void empty(void) {}

int main(int argc, char **argv) {
    (void)argv;
    empty();
    printf("%d %d %d\n", work(argc), helper(argc + 1), tail(argc));
    return 0;
}
