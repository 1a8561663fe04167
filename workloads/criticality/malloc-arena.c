// Two threads build replies in the one arena there is (M_ARENA_MAX is 1); a third gives memory back to the system every
// few milliseconds, and holds the arena's lock meanwhile. Fix: it does so fifty times less often.
#include "truth.h"
#include "work.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 2, REPLIES = 4000, PARTS = 16, OLD = 12000 };
static atomic_int left = THREADS;

__attribute__((noinline)) static unsigned build_reply(unsigned seed) {
    char *part[PARTS];
    unsigned sum = 0;
    for (int i = 0; i < PARTS; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = 1100 + (seed >> 12) % 3000; // more than a thread keeps for itself
        part[i] = malloc(size);
        part[i][0] = part[i][size - 1] = (char)seed;
    }
    for (int i = 0; i < PARTS; i++) {
        sum += part[i][0];
        free(part[i]);
    }
    return sum;
}

static void *answer(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "answerer-%d", (int)(intptr_t)argument);
    truth_name(name);
    unsigned sum = 0;
    for (int i = 0; i < REPLIES; i++)
        sum += build_reply(mixed(i + sum, 10 * MICROSECOND));
    atomic_fetch_sub(&left, 1);
    truth_note();
    return (void *)(uintptr_t)sum;
}

__attribute__((noinline)) static int trim_heap(void) {
    static int trimmed;
    trimmed += malloc_trim(0);
    return trimmed;
}

static void *trim(void *fixed) {
    truth_name("trimmer");
    for (int i = 0; atomic_load(&left) > 0; i++) {
        if (!*(int *)fixed || i % 50 == 0)
            trim_heap();
        usleep(1000);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    mallopt(M_ARENA_MAX, 1);
    int fixed = truth_begin(argc, argv);
    // A heap as it is after a while: every other chunk free.
    char **old = malloc(2 * OLD * sizeof *old);
    for (int i = 0; i < 2 * OLD; i++)
        old[i] = malloc(9000);
    for (int i = 0; i < OLD; i++)
        free(old[2 * i]);
    pthread_t trimmer, threads[THREADS];
    pthread_create(&trimmer, NULL, trim, &fixed);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, answer, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(trimmer, NULL);
    truth_print("mutex|futex", "trim_heap", "", "trimmer", -1);
}
