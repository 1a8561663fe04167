// The viewer spins until the next tile is there; another thread builds it, and slowly.
#include "../own_clock.h"
#include <atomic>
#include <thread>

static std::atomic<long> ready{0}, shown{0};
static uint64_t tile;

__attribute__((noinline)) static void build_tile(long number) {
    uint64_t state = tile + uint64_t(number);
    for (int i = 0; i < 1000000; i++)
        state = scrambled(state); // culprit
    tile = state;
}

__attribute__((noinline)) static void await_tile(long number) {
    while (ready.load(std::memory_order_acquire) < number) // culprit
        ;
}

static void build_tiles(long count) {
    for (long i = 1; i <= count; i++) {
        build_tile(i);
        ready.store(i, std::memory_order_release);
        while (shown.load(std::memory_order_acquire) < i)
            std::this_thread::yield();
    }
}

static uint64_t show_tile() {
    uint64_t state = tile;
    for (int i = 0; i < 50000; i++)
        state = scrambled(state);
    return state;
}

int main(int argc, char **argv) {
    long tiles = amount(argc, argv, 500);
    double begin = seconds(), spinning = 0, sum = 0;
    std::thread builder(build_tiles, tiles);
    for (long i = 1; i <= tiles; i++) {
        double start = seconds();
        await_tile(i);
        spinning += seconds() - start;
        sum += double(show_tile() % 1000);
        shown.store(i, std::memory_order_release);
    }
    builder.join();
    return tell(spinning, begin, sum);
}
