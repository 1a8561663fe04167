// Two threads count in parallel, then the first merges while the second waits, in turns. Fix: both merge a half.
#include "truth.h"
#include "work.h"

enum { TURNS = 80 };
static pthread_barrier_t all;
static uint64_t part[2];
static int fixed;

__attribute__((noinline)) static void count_part(int number) { part[number] = mixed(part[number], 2 * MILLISECOND); }
__attribute__((noinline)) static void merge_parts(int number, long rounds) { part[number] = mixed(part[number], rounds); }

static void *count(void *argument) {
    int number = (int)(intptr_t)argument;
    truth_name(number ? "counter" : "merger");
    for (int turn = 0; turn < TURNS; turn++) {
        count_part(number);
        pthread_barrier_wait(&all);
        if (fixed)
            merge_parts(number, 4 * MILLISECOND);
        else if (number == 0)
            merge_parts(number, 8 * MILLISECOND);
        pthread_barrier_wait(&all);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    pthread_barrier_init(&all, NULL, 2);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, (void *)(intptr_t)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    truth_print("barrier", "merge_parts", "all", "merger", 2);
}
