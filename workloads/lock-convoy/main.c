/* Threads that allocate from one pool behind one lock. Fix: a cache per thread before the pool.
 *
 * usage: lock-convoy [--fixed] [--spin] [--threads N, default 4] [thousands of blocks per thread, default 2000]
 */
#define _GNU_SOURCE
#include "allocator.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static long rounds = 2000 * 1000;
static void *worker(void *argument) {
    unsigned long sum = (unsigned long)argument;
    char name[16];
    snprintf(name, sizeof name, "worker%ld", (long)argument);
    pthread_setname_np(pthread_self(), name);
    for (long i = 0; i < rounds; i += 4) {
        char *blocks[4];
        for (int k = 0; k < 4; k++) blocks[k] = pool_take(), blocks[k][16] = (char)(i + k);
        for (int work = 0; work < 20; work++) sum = sum * 31 + (unsigned char)blocks[work & 3][16];
        for (int k = 0; k < 4; k++) pool_release(blocks[k]);
    }
    return (void *)sum;
}
int main(int argc, char **argv) {
    enum pool_lock kind = POOL_MUTEX;
    long threads = 4;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--fixed")) kind = POOL_PER_THREAD;
        else if (!strcmp(argv[i], "--spin")) kind = kind == POOL_PER_THREAD ? kind : POOL_SPIN;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = atol(argv[++i]);
        else rounds = atol(argv[i]) * 1000;
    }
    if (threads < 1 || threads > 256) return 2;
    pool_start(kind, 4096);
    pthread_t handles[256];
    unsigned long sum = 0;
    for (long i = 0; i < threads; i++) pthread_create(&handles[i], 0, worker, (void *)i);
    for (long i = 0; i < threads; i++) {
        void *result;
        pthread_join(handles[i], &result);
        sum += (unsigned long)result;
    }
    printf("%ld threads, %ld blocks each, sum %lx\n", threads, rounds, sum);
    printf("calls: lock-convoy libconvoy.so pool_take %ld\n", threads * rounds);
    printf("calls: lock-convoy libconvoy.so pool_release %ld\n", threads * rounds);
    if (kind != POOL_PER_THREAD) {
        const char *name = kind == POOL_SPIN ? "spin" : "mutex";
        printf("calls: libconvoy.so libc.so.6 pthread_%s_lock %ld\n", name, threads * rounds * 2);
        printf("calls: libconvoy.so libc.so.6 pthread_%s_unlock %ld\n", name, threads * rounds * 2);
    }
    return 0;
}
