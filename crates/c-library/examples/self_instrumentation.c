/* A program that looks at its own hot function while it works: for a tenth of a second in each second it switches the
 * function's probe on, then prints what a call takes. While the probe is off it costs nothing that could be measured.
 *
 *     cc -O2 -g self_instrumentation.c $(pkg-config --cflags --libs transect) -o self_instrumentation
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <transect.h>

/* The work: how many numbers below n have no divisor but themselves and 1. */
__attribute__((noinline)) static unsigned primes_below(unsigned n) {
    unsigned count = 0;
    for (unsigned i = 2; i < n; i++) {
        unsigned d = 2;
        while (d * d <= i && i % d != 0) d++;
        count += d * d > i;
    }
    return count;
}

/* A handler of our own: the largest argument seen. It gets the registers that hold the arguments. */
static uint64_t remember_largest(transect_id id, struct transect_registers *registers, void *vectors, void *data) {
    (void)id;
    (void)vectors;
    unsigned *largest = data;
    if ((unsigned)registers->rdi > *largest) *largest = (unsigned)registers->rdi;
    return 0;
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, transect_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    double period = argc > 2 ? atof(argv[2]) : 1.0;
    unsigned largest = 0, sum = 0;
    transect_id id;
    transect_handler handler;
    struct transect_handler_options options = {
        .tier = TRANSECT_TIER_VECTOR, .enter = remember_largest, .data = &largest
    };

    if (transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL) != 0) fail("init");
    if (transect_find_function((void *)primes_below, &id) != 0) fail("find");
    if (transect_register_handler(&options, &handler) != 0) fail("handler");
    if (transect_install(&id, 1, NULL) != 1) fail("install");

    for (int round = 0; round < rounds; round++) {
        double start = now();
        transect_set_handler(id, round % 2 ? handler : TRANSECT_HANDLER_TIME);
        transect_activate(id);
        while (now() - start < period / 10) sum += primes_below(500 + sum % 1000);
        transect_deactivate(id);
        while (now() - start < period) sum += primes_below(500 + sum % 1000);

        if (round % 2) {
            printf("largest argument in a tenth of the time: %u\n", largest);
        } else {
            struct transect_times times;
            if (transect_get_times(id, &times) != 0) fail("times");
            printf("%" PRIu64 " calls: mean %" PRIu64 " ns, median %" PRIu64 " ns, 99 %% below %" PRIu64 " ns\n",
                   times.timed, times.mean_ns, times.p50_ns, times.p99_ns);
            transect_reset(id);
        }
    }
    transect_restore_all();
    return sum == 0;
}
