/* A pool of fixed-size blocks: one list behind one lock, or (`POOL_PER_THREAD`) a small cache per thread before it. */
#ifndef CONVOY_ALLOCATOR_H
#define CONVOY_ALLOCATOR_H
enum pool_lock { POOL_MUTEX, POOL_SPIN, POOL_PER_THREAD };
void pool_start(enum pool_lock kind, int blocks);
void *pool_take(void);
void pool_release(void *block);
#endif
