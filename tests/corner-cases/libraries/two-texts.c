/* Code in two executable segments with the data between them, as a post-link optimiser lays it out. Slots are both
 * tested and called in each, so that calls in both segments are redirected. */
#include "callbacks.h"
__attribute__((weak)) int plain(int x);
/* As -fno-plt calls it: one instruction through the slot, in this segment. */
__attribute__((always_inline)) static inline int call_plain(int x) {
    int result;
    __asm__ volatile("call *plain@GOTPCREL(%%rip)"
                     : "=a"(result), "+D"(x)
                     :
                     : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    return result;
}
int changes = 5;
static int *volatile pointer = &changes;
__attribute__((section("far_text"), noinline)) int far_away(int x) {
    changes += x;
    return (plain ? call_plain(x) : -1) + *pointer;
}
__attribute__((noinline)) int near_by(int x) {
    changes ^= x;
    return (plain ? call_plain(x) : -1) + far_away(x);
}
__attribute__((constructor)) static void start(void) { changes++; }
