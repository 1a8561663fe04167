#include "options.h"

#include <stdio.h>

static volatile long sum;

__attribute__((noinline)) static void add(int amount) {
    for (int i = 0; i < amount; ++i)
        sum += i;
}

// In a thread of its own.
long worker(struct options *options) {
    int checksum = options->checksum;
    add(10);
    if (checksum)  // pair CHECKSUM when always
        add(20);
    return sum;
}

// What is read from a table depends on where; the table is never written.
long tables(int level) {
    static const struct settings table[3] = {{4, 0}, {8, 0}, {16, 1}};
    const struct settings *settings = &table[level];
    struct settings copy = table[level];
    if (settings->lazy)  // pair LEVEL when always
        add(30);
    if (copy.chain > 4)  // pair LEVEL when always
        add(40);
    return sum;
}
