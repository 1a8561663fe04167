// Counts the ways to place queens that do not attack each other, by recursion.
#include "../own_clock.h"

enum { MOST = 16 };

struct board {
    int size;
    unsigned blocked; // columns that are taken from the start
};

static struct board make_board(int size, uint64_t seed) {
    struct board board = {size, 0};
    for (int i = 0; i < 1; i++)
        board.blocked |= 1u << (scrambled(seed + (uint64_t)i) % (unsigned)size);
    return board;
}

__attribute__((noinline)) static long place(const struct board *board, unsigned columns, unsigned left, unsigned right) {
    unsigned all = (1u << board->size) - 1;
    if (columns == all)
        return 1;
    long ways = 0;
    for (unsigned free = all & ~(columns | left | right); free; free &= free - 1) {
        unsigned here = free & -free;
        ways += place(board, columns | here, (left | here) << 1, (right | here) >> 1); // culprit
    }
    return ways;
}

static void note_ways(long ways, long *histogram) {
    while (ways > 9)
        ways /= 10;
    histogram[ways]++;
}

int main(int argc, char **argv) {
    long boards = amount(argc, argv, 900), histogram[10] = {0};
    double begin = seconds(), placing = 0;
    long sum = 0;
    for (long i = 0; i < boards; i++) {
        struct board board = make_board(12, (uint64_t)i);
        double start = seconds();
        long ways = place(&board, board.blocked, 0, 0);
        placing += seconds() - start;
        note_ways(ways, histogram);
        sum += ways;
    }
    return tell(placing, begin, (double)(sum + histogram[1]));
}
