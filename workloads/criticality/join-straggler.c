// The directory is scanned by four threads, one of which has most of the files; then the result is sorted. Fix: that
// part is scanned in half the time.
#include "truth.h"
#include "work.h"

enum { THREADS = 4, ROUNDS = 25 };
static int fixed;

__attribute__((noinline)) static uint64_t scan_partition(uint64_t files) { return mixed(files, files * MILLISECOND); }

static void *scan_small(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "scanner-%d", (int)(intptr_t)argument);
    truth_name(name);
    mixed(1, 2 * MILLISECOND);
    return NULL;
}
static void *scan_large(void *unused) {
    truth_name("straggler");
    scan_partition(fixed ? 16 : 32);
    return unused;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        pthread_create(&threads[0], NULL, scan_large, NULL);
        for (int i = 1; i < THREADS; i++)
            pthread_create(&threads[i], NULL, scan_small, (void *)(intptr_t)i);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        mixed(round, 4 * MILLISECOND);
    }
    truth_print("join", "scan_partition", "", "straggler", 2);
}
