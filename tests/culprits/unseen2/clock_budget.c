// Asks clock() before each move whether there is time left. That is a system call, unlike other clocks.
#include "../own_clock.h"

static clock_t most;

__attribute__((noinline)) static int time_left(void) {
    return clock() < most; // culprit
}

__attribute__((noinline)) static uint64_t try_move(uint64_t board) {
    for (int i = 0; i < 12; i++)
        board = scrambled(board + 1);
    return board;
}

int main(int argc, char **argv) {
    long moves = amount(argc, argv, 4500000);
    double begin = seconds();
    uint64_t board = 1;
    most = clock() + 1000l * CLOCKS_PER_SEC;
    for (long i = 0; i < moves && time_left(); i++)
        board = try_move(board);
    // What is left without the clock, by a tenth of the moves.
    double start = seconds();
    for (long i = 0; i < moves / 10; i++)
        board = try_move(board);
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, (double)(board % 1000));
}
