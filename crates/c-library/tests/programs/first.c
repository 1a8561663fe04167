/* A program that probes its own function: entry and exit handlers of every tier, toggling, counts, times, restore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <transect.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, transect_last_error()); \
            exit(1); \
        } \
    } while (0)

__attribute__((noinline)) long hot(long a, long b) {
    __asm__ volatile("" ::: "memory");
    return a * 3 + b;
}

static long entries, exits, last_a, last_b, last_result, cookies;
static transect_id id;

static uint64_t entered(transect_id seen, struct transect_registers *r, void *vectors, void *data) {
    (void)vectors;
    if (seen != id || data != &entries) abort();
    entries++;
    last_a = (long)r->rdi;
    last_b = (long)r->rsi;
    return r->rdi + 7;
}

static void left(transect_id seen, struct transect_registers *r, void *vectors, uint64_t cookie, void *data) {
    (void)vectors;
    if (seen != id || data != &entries) abort();
    exits++;
    last_result = (long)r->rax;
    cookies += (long)cookie;
}

int main(void) {
    transect_handler handler;
    int32_t status;
    CHECK(transect_find_function((void *)hot, &id) == TRANSECT_ERROR_NOT_INITIALIZED);
    CHECK(transect_init(TRANSECT_ABI_VERSION + 1, sizeof(struct transect_options), NULL) == TRANSECT_ERROR_ABI);
    CHECK(transect_init(TRANSECT_ABI_VERSION, 8, NULL) == TRANSECT_ERROR_ABI);
    struct transect_options options = TRANSECT_OPTIONS_INIT;
    options.site_size--;
    CHECK(transect_init(TRANSECT_ABI_VERSION, sizeof options, &options) == TRANSECT_ERROR_ABI);
    options.site_size++;
    CHECK(transect_init(TRANSECT_ABI_VERSION, sizeof options, &options) == TRANSECT_OK);
    unsigned char before[32];
    memcpy(before, (void *)hot, sizeof before);
    CHECK(transect_find_function((void *)hot, &id) == TRANSECT_OK);
    CHECK(transect_activate(id) == TRANSECT_ERROR_NOT_INSTALLED);
    struct transect_site site;
    CHECK(transect_get_site(id, &site) == 0);
    CHECK(strcmp(site.function, "hot") == 0 && site.event == TRANSECT_ENTRY && site.exit_observable);
    CHECK(site.function_address == (uint64_t)hot && site.line > 0 && strstr(site.file, "first.c"));
    CHECK(transect_install(&id, 1, &status) == 1 && status == TRANSECT_OK);
    CHECK(hot(1, 2) == 5);
    for (uint32_t tier = TRANSECT_TIER_INTEGER; tier <= TRANSECT_TIER_FULL; tier++) {
        struct transect_handler_options h = { .tier = tier, .enter = entered, .exit = left, .data = &entries };
        CHECK(transect_register_handler(&h, &handler) == 0);
        CHECK(transect_set_handler(id, handler) == 0);
        entries = exits = cookies = 0;
        CHECK(transect_activate(id) == 0 && transect_is_active(id) == 1);
        for (long i = 0; i < 1000; i++) CHECK(hot(i, 2) == i * 3 + 2);
        CHECK(transect_deactivate(id) == 0 && transect_is_active(id) == 0);
        CHECK(hot(1, 2) == 5);
        CHECK(entries == 1000 && exits == 1000 && last_a == 999 && last_b == 2 && last_result == 999 * 3 + 2);
        CHECK(cookies == 999 * 500 + 7000);
    }
    uint64_t calls;
    CHECK(transect_set_handler(id, TRANSECT_HANDLER_COUNT) == 0);
    CHECK(transect_activate(id) == 0);
    for (int i = 0; i < 100; i++) hot(i, i);
    CHECK(transect_count(id, &calls) == 0 && calls == 100);
    CHECK(transect_reset(id) == 0);
    CHECK(transect_set_handler(id, TRANSECT_HANDLER_TIME) == 0);
    for (int i = 0; i < 100; i++) hot(i, i);
    struct transect_times times;
    CHECK(transect_get_times(id, &times) == 0);
    CHECK(times.calls == 100 && times.timed == 100 && times.max_ns >= times.p50_ns);
    CHECK(transect_restore(&id, 1, &status) == 1 && status == 0);
    CHECK(memcmp(before, (void *)hot, sizeof before) == 0);
    CHECK(transect_activate(id) == TRANSECT_ERROR_NOT_INSTALLED);
    CHECK(transect_install(&id, 1, NULL) == 1 && transect_activate(id) == 0);
    CHECK(hot(1, 2) == 5);
    CHECK(transect_restore_all() == 1);
    /* A constant address inside of the function would be taken for a jump target. */
    volatile uintptr_t inside = (uintptr_t)hot;
    CHECK(transect_find_function((void *)(inside + 1), &id) == TRANSECT_ERROR_NOT_FOUND);
    CHECK(strstr(transect_last_error(), "inside of hot"));
    CHECK(transect_find("no_such_function", &id) == TRANSECT_ERROR_NOT_FOUND);
    CHECK(transect_find("hot", &id) == 0);
    CHECK(transect_activate(4000000000u) == TRANSECT_ERROR_NO_SITE);
    puts("ok");
    return 0;
}
