/* Four stages joined by bounded queues, one thread each: `transform` takes thirty times as long as the next, which wait.
 * Fix: as many transform threads as there are CPUs.
 *
 * usage: pipeline [--fixed] [items, default 5000]
 */
#define _GNU_SOURCE
#include "stages.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPACITY = 16 };
#define END (~0UL)
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    unsigned long items[CAPACITY];
    int first, count, writers;
} Queue;
static Queue queues[3];
static long item_count = 5000;
static int transform_threads = 1;
static long locked, unlocked, waited; /* the truth that a profile is checked against */
#define COUNT(counter) __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED)
static void lock(Queue *q) { COUNT(locked), pthread_mutex_lock(&q->lock); }
static void unlock(Queue *q) { COUNT(unlocked), pthread_mutex_unlock(&q->lock); }
static void wait_for(pthread_cond_t *condition, Queue *q) { COUNT(waited), pthread_cond_wait(condition, &q->lock); }

static void queue_put(Queue *q, unsigned long item) {
    lock(q);
    while (q->count == CAPACITY) wait_for(&q->not_full, q);
    q->items[(q->first + q->count++) % CAPACITY] = item;
    pthread_cond_signal(&q->not_empty);
    unlock(q);
}
static void queue_close(Queue *q) {
    lock(q);
    if (--q->writers == 0) pthread_cond_broadcast(&q->not_empty);
    unlock(q);
}
static unsigned long queue_get(Queue *q) {
    lock(q);
    while (!q->count && q->writers) wait_for(&q->not_empty, q);
    unsigned long item = END;
    if (q->count) {
        item = q->items[q->first];
        q->first = (q->first + 1) % CAPACITY;
        q->count--;
        pthread_cond_signal(&q->not_full);
    }
    unlock(q);
    return item;
}
static void *reader(void *argument) {
    pthread_setname_np(pthread_self(), "reader");
    for (long i = 0; i < item_count; i++) queue_put(&queues[0], stage_read((unsigned long)i) >> 1);
    queue_close(&queues[0]);
    return argument;
}
static void *transformer(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "transform%ld", (long)argument);
    pthread_setname_np(pthread_self(), name);
    unsigned long item;
    while ((item = queue_get(&queues[0])) != END) queue_put(&queues[1], stage_transform(item) >> 1);
    queue_close(&queues[1]);
    return 0;
}
static void *checker(void *argument) {
    pthread_setname_np(pthread_self(), "checker");
    unsigned long item;
    while ((item = queue_get(&queues[1])) != END) queue_put(&queues[2], stage_check(item) >> 1);
    queue_close(&queues[2]);
    return argument;
}
static void *storer(void *argument) {
    pthread_setname_np(pthread_self(), "storer");
    unsigned long item;
    while ((item = queue_get(&queues[2])) != END) *(unsigned long *)argument += stage_store(item);
    return 0;
}
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--fixed")) transform_threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
        else item_count = atol(argv[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_mutex_init(&queues[i].lock, 0);
        pthread_cond_init(&queues[i].not_empty, 0);
        pthread_cond_init(&queues[i].not_full, 0);
        queues[i].writers = i == 1 ? transform_threads : 1;
    }
    unsigned long sum = 0;
    pthread_t first, transform[256], third, last;
    pthread_create(&first, 0, reader, 0);
    for (long i = 0; i < transform_threads; i++) pthread_create(&transform[i], 0, transformer, (void *)i);
    pthread_create(&third, 0, checker, 0);
    pthread_create(&last, 0, storer, &sum);
    pthread_join(first, 0);
    for (int i = 0; i < transform_threads; i++) pthread_join(transform[i], 0);
    pthread_join(third, 0);
    pthread_join(last, 0);
    printf("%ld items, sum %lx\n", item_count, sum);
    const char *stages[] = {"read", "transform", "check", "store"};
    for (int i = 0; i < 4; i++) printf("calls: pipeline libstages.so stage_%s %ld\n", stages[i], item_count);
    printf("calls: pipeline libc.so.6 pthread_mutex_lock %ld\n", locked);
    printf("calls: pipeline libc.so.6 pthread_mutex_unlock %ld\n", unlocked);
    printf("calls: pipeline libc.so.6 pthread_cond_wait %ld\n", waited);
    return 0;
}
