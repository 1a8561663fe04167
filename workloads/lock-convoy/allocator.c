#include "allocator.h"
#include <pthread.h>
#include <stdlib.h>
typedef struct Block { struct Block *next; char payload[120]; } Block;
static Block *pool;
static enum pool_lock kind;
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t pool_spin;
static __thread Block *cache;
static __thread int cached;

static void lock(void) {
    if (kind == POOL_SPIN) pthread_spin_lock(&pool_spin);
    else pthread_mutex_lock(&pool_mutex);
}
static void unlock(void) {
    if (kind == POOL_SPIN) pthread_spin_unlock(&pool_spin);
    else pthread_mutex_unlock(&pool_mutex);
}
/* Best fit over a list, as a real allocator would search: the lock is held for a while. */
static Block *search(void) {
    Block *best = pool, **link = &pool, **best_link = &pool;
    for (int i = 0; *link && i < 40; i++, link = &(*link)->next)
        if ((*link)->payload[0] > best->payload[0]) best = *link, best_link = link;
    if (best) *best_link = best->next;
    return best;
}
void pool_start(enum pool_lock how, int blocks) {
    kind = how;
    pthread_spin_init(&pool_spin, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < blocks; i++) {
        Block *b = malloc(sizeof *b);
        if (!b) abort();
        b->payload[0] = (char)(i % 100);
        b->next = pool;
        pool = b;
    }
}
void *pool_take(void) {
    if (kind == POOL_PER_THREAD && cache) {
        Block *b = cache;
        cache = b->next;
        cached--;
        return b;
    }
    lock();
    Block *b = search();
    unlock();
    if (!b) abort();
    return b;
}
void pool_release(void *block) {
    Block *b = block;
    if (kind == POOL_PER_THREAD && cached < 32) {
        b->next = cache;
        cache = b;
        cached++;
        return;
    }
    lock();
    b->next = pool;
    pool = b;
    unlock();
}
