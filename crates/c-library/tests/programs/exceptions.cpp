// Exceptions through probed functions, rethrown and caught; thread cancellation; a backtrace.
#include "check.h"
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define TARGET extern "C" __attribute__((noinline, noclone))
struct Guard {
    int &n;
    explicit Guard(int &count) : n(count) {}
    ~Guard() { n++; }
};
static thread_local int destroyed;

TARGET long throws(long depth) {
    Guard guard(destroyed);
    BARRIER();
    if (depth == 0) throw std::runtime_error("deep");
    return throws(depth - 1) + 1;
}
TARGET long rethrows(long depth) {
    try {
        return throws(depth);
    } catch (const std::exception &) {
        throw;
    }
}
TARGET long catches(long depth) {
    try {
        return rethrows(depth);
    } catch (const std::runtime_error &error) {
        return std::string(error.what()) == "deep" ? 1 : 0;
    }
}
TARGET int walks(long depth) {
    void *frames[64];
    if (depth > 0) {
        int n = walks(depth - 1);
        BARRIER();
        return n;
    }
    return backtrace(frames, 64);
}
TARGET long sleeps(long) {
    Guard guard(destroyed);
    for (;;) usleep(1000);
}

static uint64_t enter(transect_id, struct transect_registers *, void *, void *) { return 9; }
static void leave(transect_id, struct transect_registers *, void *, uint64_t, void *) {}
static void *canceled(void *) { return reinterpret_cast<void *>(sleeps(1)); }

int main() {
    BEGIN();
    int plain = walks(10);
    transect_handler handler;
    struct transect_handler_options h = {};
    h.tier = TRANSECT_TIER_VECTOR;
    h.enter = enter;
    h.exit = leave;
    CHECK(transect_register_handler(&h, &handler) == 0);
    void *functions[] = { (void *)throws, (void *)rethrows, (void *)catches, (void *)walks, (void *)sleeps };
    std::vector<transect_id> ids(5);
    for (int i = 0; i < 5; i++) CHECK(transect_find_function(functions[i], &ids[i]) == 0);
    CHECK(transect_install(ids.data(), 5, nullptr) == 5);
    for (transect_handler one : { TRANSECT_HANDLER_TIME, handler }) {
        for (transect_id id : ids) CHECK(transect_set_handler(id, one) == 0);
        CHECK(transect_activate_batch(ids.data(), 5) == 5);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([] {
                for (int i = 0; i < 500; i++) {
                    destroyed = 0;
                    CHECK(catches(i % 20) == 1);
                    CHECK(destroyed == i % 20 + 1);
                }
            });
        for (auto &thread : threads) thread.join();
        CHECK(walks(10) == plain);
        pthread_t sleeper;
        pthread_create(&sleeper, nullptr, canceled, nullptr);
        usleep(10000);
        pthread_cancel(sleeper);
        void *result;
        pthread_join(sleeper, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    std::puts("ok");
}
