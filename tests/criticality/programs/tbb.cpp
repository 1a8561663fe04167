// A TBB flow: cheap tasks in parallel, then a serial in-order filter that takes most of the time.
#include <cstdint>
#include <cstdio>
#include <oneapi/tbb/parallel_pipeline.h>

__attribute__((noinline)) static uint64_t iterate(uint64_t x, long rounds) {
    for (long i = 0; i < rounds; i++)
        x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}
__attribute__((noinline)) static uint64_t prepare(int i) { return iterate(i, 600000); }
__attribute__((noinline)) static void store_in_order(uint64_t x) {
    static volatile uint64_t kept;
    kept = kept + iterate(x, 2400000);
}

int main() {
    int next = 0;
    using oneapi::tbb::filter_mode;
    oneapi::tbb::parallel_pipeline(
        4, oneapi::tbb::make_filter<void, int>(filter_mode::serial_in_order,
                                               [&](oneapi::tbb::flow_control &control) {
                                                   if (next == 200)
                                                       control.stop();
                                                   return next++;
                                               }) &
               oneapi::tbb::make_filter<int, uint64_t>(filter_mode::parallel, [](int i) { return prepare(i); }) &
               oneapi::tbb::make_filter<uint64_t, void>(filter_mode::serial_in_order, [](uint64_t x) { store_in_order(x); }));
    std::printf("pieces %d\n", next - 1);
}
