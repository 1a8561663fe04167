// A user of epochs spins until the next one has been built, four milliseconds each. Fix: built in half the time.
#include "truth.h"
#include "work.h"
#include <atomic>
#include <thread>

static const int EPOCHS = 200;
static std::atomic<int> epoch{0}, used{0};
static uint64_t state;

__attribute__((noinline)) static void await_epoch(int wanted) {
    while (epoch.load(std::memory_order_acquire) < wanted)
        __builtin_ia32_pause();
}

__attribute__((noinline)) static void build_epoch(bool fixed) { state = mixed(state, (fixed ? 2 : 4) * MILLISECOND); }

static void use_epochs() {
    truth_name("user");
    for (int i = 1; i <= EPOCHS; i++) {
        await_epoch(i);
        mixed(state, MILLISECOND / 2);
        used = i;
    }
    truth_note();
}

int main(int argc, char **argv) {
    bool fixed = truth_begin(argc, argv);
    std::thread user(use_epochs);
    for (int i = 1; i <= EPOCHS; i++) {
        build_epoch(fixed);
        epoch.store(i, std::memory_order_release);
    }
    user.join();
    truth_print("spin", "build_epoch", "", "user", 2);
}
