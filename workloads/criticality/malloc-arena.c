// Four threads build replies of changing size from one arena (M_ARENA_MAX is 1). Fix: as many arenas as usual.
#include "truth.h"
#include "work.h"
#include <malloc.h>
#include <stdlib.h>

enum { THREADS = 4, REPLIES = 12000, PARTS = 64 };

__attribute__((noinline)) static unsigned build_reply(unsigned seed) {
    char *part[PARTS];
    unsigned sum = 0;
    for (int i = 0; i < PARTS; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = 1100 + (seed >> 12) % 6000; // more than a thread keeps for itself
        part[i] = malloc(size);
        part[i][0] = part[i][size - 1] = (char)seed;
    }
    for (int i = 0; i < PARTS; i++) {
        int k = i * 37 % PARTS;
        sum += part[k][0];
        free(part[k]);
    }
    return sum;
}

static void *answer(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "answerer-%d", (int)(intptr_t)argument);
    truth_name(name);
    unsigned sum = 0;
    for (int i = 0; i < REPLIES; i++)
        sum += build_reply(i + sum);
    truth_note();
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv) {
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    if (!truth_begin(argc, argv))
        mallopt(M_ARENA_MAX, 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, answer, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth_print("mutex|futex", "build_reply", "", "answerer", 0);
}
