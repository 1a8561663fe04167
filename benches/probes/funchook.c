/* funchook: installing and removing a hook, and calling a hooked function whose hook only calls on. */
#include "ticks.h"
#include <funchook.h>

extern const function many[];
extern const int many_count;

static function original;
static long hook(long a, long b) { return original(a, b); }

int main(void) {
    double bare = call_cost(many[0], 100000), on[50], off[50];
    for (int i = 0; i < 50; i++) {
        uint64_t start = ticks();
        funchook_t *f = funchook_create();
        original = many[0];
        if (!f || funchook_prepare(f, (void **)&original, (void *)hook)) return fprintf(stderr, "prepare failed\n"), 1;
        if (funchook_install(f, 0)) return fprintf(stderr, "install failed\n"), 1;
        on[i] = (double)(ticks() - start);
        if (i == 0) result("call", call_cost(many[0], 100000) - bare);
        start = ticks();
        funchook_uninstall(f, 0);
        funchook_destroy(f);
        off[i] = (double)(ticks() - start);
    }
    result("on", median(on, 50));
    result("off", median(off, 50));
    int n = many_count < 2000 ? many_count : 2000;
    function *kept = calloc(n, sizeof *kept);
    uint64_t start = ticks();
    funchook_t *f = funchook_create();
    int prepared = 0;
    for (int i = 0; i < n; i++) {
        kept[i] = many[i];
        prepared += funchook_prepare(f, (void **)&kept[i], (void *)hook) == 0;
    }
    if (funchook_install(f, 0)) return fprintf(stderr, "install of many failed\n"), 1;
    result("install", (double)(ticks() - start) / (prepared ? prepared : 1));
}
