/* Cost of one call of a trivial library function: call-cost MODE CALLS THREADS [INSIDE].
 * MODE `call` calls, `floor` puts a pair of clock reads (rdtsc) around each call, `empty` only loops.
 * Each thread calls a function of its own. Prints nanoseconds per call of the slowest thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>
long callee0(long), callee1(long), callee2(long), callee3(long);
static const char *mode;
static long calls;
static double results[4];
static pthread_barrier_t start_line;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
#define LOOP(function) \
    if (!strcmp(mode, "floor")) for (long i = 0; i < calls; i++) { unsigned long t = __rdtsc(); sum += function(i); spent += __rdtsc() - t; } \
    else if (!strcmp(mode, "empty")) for (long i = 0; i < calls; i++) __asm__ volatile("" : "+r"(sum)); \
    else for (long i = 0; i < calls; i++) sum += function(i);
static void *work(void *argument) {
    long index = (long)argument;
    volatile unsigned long keep;
    unsigned long spent = 0;
    long sum = 0;
    if (index == 0) sum += callee0(0);
    if (index == 1) sum += callee1(0);
    if (index == 2) sum += callee2(0);
    if (index == 3) sum += callee3(0);
    pthread_barrier_wait(&start_line);
    double start = now();
    switch (index) {
        case 0: LOOP(callee0) break;
        case 1: LOOP(callee1) break;
        case 2: LOOP(callee2) break;
        case 3: LOOP(callee3) break;
    }
    results[index] = (now() - start) / (double)calls;
    keep = spent + (unsigned long)sum;
    (void)keep;
    return 0;
}
int main(int argc, char **argv) {
    if (argc < 4) return 2;
    mode = argv[1];
    calls = atol(argv[2]);
    long threads = atol(argv[3]);
    if (threads < 1 || threads > 4) return 2;
    pthread_barrier_init(&start_line, 0, (unsigned)threads);
    pthread_t handles[4];
    for (long i = 1; i < threads; i++) pthread_create(&handles[i], 0, work, (void *)i);
    work((void *)0);
    for (long i = 1; i < threads; i++) pthread_join(handles[i], 0);
    double slowest = 0;
    for (int i = 0; i < threads; i++) if (results[i] > slowest) slowest = results[i];
    printf("%.4f\n", slowest);
    return 0;
}
