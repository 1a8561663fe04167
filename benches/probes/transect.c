/* libtransect: finding, installing and toggling probes, and calling a probed function, in every tier. */
#include "ticks.h"
#include <time.h>
#include <transect.h>

extern const function many[];
extern const int many_count;

__attribute__((target("general-regs-only"))) static uint64_t empty(transect_id id, struct transect_registers *r, void *v, void *d) {
    (void)id, (void)r, (void)v, (void)d;
    return 0;
}

__attribute__((target("general-regs-only"))) static uint64_t stamp(transect_id id, struct transect_registers *r, void *v, void *d) {
    (void)id, (void)r, (void)v, (void)d;
    return __rdtsc();
}

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static int die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, transect_last_error());
    exit(1);
}

static double toggle_cost(transect_id id, int (*toggle)(transect_id), int (*back)(transect_id), double net) {
    double values[2000];
    for (int i = 0; i < 2000; i++) {
        uint64_t start = ticks();
        toggle(id);
        values[i] = (double)(ticks() - start);
        back(id);
    }
    return quiet_mean(values, 2000) - net;
}

int main(void) {
    double bare = call_cost(many[0], 100000), net = empty_interval();
    double begin = milliseconds();
    if (transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL)) die("init");
    if (transect_discover(":many*", TRANSECT_NO_LINES, NULL, NULL) < 0) die("discover");
    double found = milliseconds();
    uint32_t n = transect_site_count();
    transect_id *ids = malloc(n * sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = i;
    uint64_t start = ticks();
    int64_t installed = transect_install(ids, n, NULL);
    double took = (double)(ticks() - start), end = milliseconds();
    if (installed <= 0) die("install");
    result("sites", (double)installed);
    result("analysis-ms", found - begin);
    result("install", took / (double)installed);
    result("whole-ms", end - begin);

    transect_id id;
    if (transect_find_function((void *)many[0], &id)) die("find");
    double off = 1e18, inactive = call_cost(many[0], 100000);
    result("call-inactive", inactive - bare);
    result("on", toggle_cost(id, transect_activate, transect_deactivate, net));
    result("off", toggle_cost(id, transect_deactivate, transect_activate, net));
    for (int round = 0; round < 20; round++) {
        start = ticks();
        transect_activate_batch(ids, n);
        transect_deactivate_batch(ids, n);
        double each = (double)(ticks() - start) / (2.0 * n);
        if (each < off) off = each;
    }
    result("bulk", off);
    static const struct { const char *name; uint32_t tier; transect_enter_fn enter; } tiers[] = {
        {"call-integer", TRANSECT_TIER_INTEGER, empty},
        {"call-stamp", TRANSECT_TIER_INTEGER, stamp},
        {"call-sse", TRANSECT_TIER_SSE, empty},
        {"call-vector", TRANSECT_TIER_VECTOR, empty},
        {"call-full", TRANSECT_TIER_FULL, empty},
    };
    for (unsigned i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        struct transect_handler_options options = {.tier = tiers[i].tier, .enter = tiers[i].enter};
        transect_handler handler;
        if (transect_register_handler(&options, &handler) || transect_set_handler(id, handler)) die("handler");
        transect_activate(id);
        result(tiers[i].name, call_cost(many[0], 20000) - bare);
        transect_deactivate(id);
    }
    static const struct { const char *name; transect_handler handler; } built_in[] = {
        {"call-nothing", TRANSECT_HANDLER_NOTHING}, {"call-count", TRANSECT_HANDLER_COUNT}, {"call-time", TRANSECT_HANDLER_TIME}};
    for (unsigned i = 0; i < 3; i++) {
        if (transect_set_handler(id, built_in[i].handler)) die("handler");
        transect_activate(id);
        result(built_in[i].name, call_cost(many[0], 20000) - bare);
        transect_deactivate(id);
    }
    begin = milliseconds();
    start = ticks();
    if (transect_restore_all() < 0) die("restore");
    result("restore", (double)(ticks() - start) / (double)installed);
}
