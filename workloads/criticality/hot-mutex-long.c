// A housekeeper compacts the table every few milliseconds and holds its lock for twenty; three workers need the lock
// for a moment at a time. Fix: it compacts only what has changed.
#include "truth.h"
#include "work.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS = 3, ITEMS = 400 };
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t table[256];
static atomic_int left = WORKERS;

__attribute__((noinline)) static void compact_table(long rounds) {
    for (int i = 0; i < 256; i++)
        table[i] = mixed(table[i], rounds / 256);
}

static void *housekeeper(void *argument) {
    truth_name("housekeeper");
    while (atomic_load(&left) > 0) {
        pthread_mutex_lock(&table_lock);
        compact_table(*(int *)argument ? MILLISECOND / 10 : 20 * MILLISECOND);
        pthread_mutex_unlock(&table_lock);
        usleep(5000);
    }
    truth_note();
    return NULL;
}

static void *worker(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "worker-%d", (int)(intptr_t)argument);
    truth_name(name);
    for (int i = 0; i < ITEMS; i++) {
        uint64_t item = mixed(i, MILLISECOND / 4);
        pthread_mutex_lock(&table_lock);
        table[item % 256] ^= item;
        pthread_mutex_unlock(&table_lock);
    }
    atomic_fetch_sub(&left, 1);
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    int fixed = truth_begin(argc, argv);
    pthread_t keeper, workers[WORKERS];
    pthread_create(&keeper, NULL, housekeeper, &fixed);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, worker, (void *)(intptr_t)i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    pthread_join(keeper, NULL);
    truth_print("mutex", "compact_table", "table_lock", "housekeeper", -1);
}
