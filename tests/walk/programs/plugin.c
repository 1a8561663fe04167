// A library that is loaded while the program runs.
#include <stdint.h>
static uint64_t state = 1;
__attribute__((noinline)) static void plugin_work(unsigned i) {
    for (unsigned n = 0; n < 20000 + i % 3; n++) {
        state ^= state >> 31;
        state *= 0x9e3779b97f4a7c15u;
        __asm__ volatile("" : "+r"(state));
    }
}
void plugin_entry(unsigned i) {
    plugin_work(i);
    __asm__ volatile("");
}
