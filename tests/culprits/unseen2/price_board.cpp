// Who reads a price board waits while the one writer works out all prices with the shared lock held.
#include "../own_clock.h"
#include <atomic>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>

static std::shared_mutex board_lock;
static uint64_t board[512];
static std::atomic<bool> closed;
static std::atomic<bool> asked;
static std::counting_semaphore<4> wanted(0);
static double waiting;

static uint64_t worked(uint64_t state, long rounds) {
    for (long i = 0; i < rounds; i++)
        state = scrambled(state + (uint64_t)i);
    return state;
}

__attribute__((noinline)) static void reprice_all() {
    std::unique_lock guard(board_lock);
    for (int i = 0; i < 512; i++)
        board[i] = worked(board[i], 10000); // culprit
}

static void writer() {
    for (wanted.acquire(); !closed; wanted.acquire()) {
        asked = false;
        reprice_all();
    }
}

__attribute__((noinline)) static uint64_t price_of(long article) {
    double start = seconds();
    std::shared_lock guard(board_lock); // culprit
    waiting += seconds() - start;
    return board[article & 511];
}

int main(int argc, char **argv) {
    long questions = amount(argc, argv, 300);
    double begin = seconds();
    uint64_t sum = 1;
    std::thread pricing(writer);
    for (long i = 0; i < questions; i++) {
        // New prices are asked for now and then, and not waited for.
        if (i % 4 == 0 && !asked.exchange(true))
            wanted.release();
        sum = worked(sum + price_of(i), 30000);
    }
    double took = waiting;
    closed = true;
    wanted.release();
    pricing.join();
    return tell(took, begin, (double)(sum % 1000));
}
