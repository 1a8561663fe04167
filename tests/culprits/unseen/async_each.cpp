// Starts a thread with std::async for each small tile.
#include "hclock.h"
#include <future>
static uint64_t shade(uint64_t t) { for (int k = 0; k < 1000; k++) t = mixed(t); return t; }
__attribute__((noinline)) static uint64_t render_tile(uint64_t t) {
    IN;
    auto f = std::async(std::launch::async, shade, t); // HERE
    uint64_t r = f.get(); // HERE
    OUT;
    return r;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long tiles = argc > 1 ? atol(argv[1]) : 80000; uint64_t sum = 0;
    for (long i = 0; i < tiles; i++) sum += render_tile(i);
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
