/* Compiled with -finstrument-functions: every call of the compiler's hooks becomes a site with an id. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <transect.h>

#define PLAIN __attribute__((no_instrument_function))
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, transect_last_error()); \
            exit(1); \
        } \
    } while (0)

static atomic_long events[2], wrong;

__attribute__((noinline)) long leaf(long x) {
    __asm__ volatile("" ::: "memory");
    return x + 1;
}
__attribute__((noinline)) long middle(long x) { return leaf(x) + leaf(x + 1); }
__attribute__((noinline)) static long recursive(long n) { return n <= 0 ? 0 : 1 + recursive(n - 1); }
__attribute__((noinline)) void nothing(void) { __asm__ volatile("" ::: "memory"); }

PLAIN static uint64_t event(transect_id id, struct transect_registers *r, void *vectors, void *data) {
    (void)vectors;
    (void)data;
    struct transect_site site;
    if (transect_get_site(id, &site) != 0 || site.provider != TRANSECT_PROVIDER_INSTRUMENT_FUNCTIONS || site.function_address != r->rdi)
        wrong++;
    events[site.event == TRANSECT_EXIT]++;
    return 0;
}

static void *work(void *n) {
    for (long i = 0; i < (long)n; i++) {
        if (middle(i) != 2 * i + 3) abort();
        nothing();
    }
    return NULL;
}

PLAIN int main(void) {
    transect_handler handler;
    /* Met before anything else is called: they count. */
    leaf(1);
    CHECK(transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL) == 0);
    struct transect_handler_options h = { .tier = TRANSECT_TIER_VECTOR, .enter = event };
    CHECK(transect_register_handler(&h, &handler) == 0);
    CHECK(transect_instrument_functions(TRANSECT_HANDLER_TIME, 1) == TRANSECT_ERROR_UNSUPPORTED);
    CHECK(transect_instrument_functions(handler, 1) == 0);
    uint32_t sites = transect_site_count();
    CHECK(sites >= 2);
    uint64_t calls, all = 0;
    for (transect_id id = 0; id < sites; id++) {
        CHECK(transect_count(id, &calls) == 0);
        all += calls;
        CHECK(transect_set_handler(id, handler) == 0 && transect_is_active(id) == 1);
    }
    CHECK(all == 2);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)1000L);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(recursive(10) == 10);
    long expected = 4 * (1 + 1000 * 4) + 11; /* work; middle, two leaves and nothing a round; recursive */
    CHECK(events[0] == expected && events[1] == expected && wrong == 0);
    CHECK(transect_site_count() == sites);
    /* Toggled like any site. */
    for (transect_id id = 0; id < sites; id++) CHECK(transect_deactivate(id) == 0);
    work((void *)100L);
    CHECK(events[0] == expected);
    struct transect_site site;
    for (transect_id id = 0; id < sites; id++) {
        CHECK(transect_get_site(id, &site) == 0);
        if (strcmp(site.function, "leaf") == 0 && site.event == TRANSECT_ENTRY) CHECK(transect_activate(id) == 0);
    }
    work((void *)100L);
    CHECK(events[0] == expected + 200 && events[1] == expected);
    puts("ok");
    return 0;
}
