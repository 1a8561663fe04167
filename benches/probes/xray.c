/* LLVM XRay: cost of patching and unpatching, and of calling a patched function with an empty handler. */
#include "ticks.h"
#include <stdbool.h>

extern const function many[];
extern const int many_count;

enum { SUCCESS = 2 };
extern int __xray_set_handler(void (*handler)(int32_t, int));
extern int __xray_remove_handler(void);
extern int __xray_patch(void);
extern int __xray_unpatch(void);
extern int __xray_patch_function(int32_t id);
extern int __xray_unpatch_function(int32_t id);
extern uintptr_t __xray_function_address(int32_t id);
extern int32_t __xray_max_function_id(void);

__attribute__((xray_never_instrument)) static void empty(int32_t id, int type) { (void)id, (void)type; }

__attribute__((xray_never_instrument)) int main(void) {
    int32_t wanted = 0, last = __xray_max_function_id();
    for (int32_t id = 1; id <= last; id++)
        if (__xray_function_address(id) == (uintptr_t)many[0]) wanted = id;
    if (!wanted) return fprintf(stderr, "no instrumented functions\n"), 1;
    __xray_set_handler(empty);
    double off = call_cost(many[0], 100000);
    double on[200], back[200], net = empty_interval();
    for (int i = 0; i < 200; i++) {
        uint64_t start = ticks();
        __xray_patch_function(wanted);
        on[i] = (double)(ticks() - start) - net;
        start = ticks();
        __xray_unpatch_function(wanted);
        back[i] = (double)(ticks() - start) - net;
    }
    result("on", median(on, 200));
    result("off", median(back, 200));
    __xray_patch_function(wanted);
    result("call", (call_cost(many[0], 100000) - off) / 2); /* entry and exit sled */
    __xray_unpatch_function(wanted);
    uint64_t start = ticks();
    __xray_patch();
    result("install", (double)(ticks() - start) / last);
    start = ticks();
    __xray_unpatch();
    result("remove", (double)(ticks() - start) / last);
}
