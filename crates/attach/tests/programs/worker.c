// Threads that call `step` all the time, and check that what they computed is right.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static atomic_ulong rounds, wrong;
__attribute__((noinline)) long step(long x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
static void *work(void *argument) {
    long sleeper = (long)argument;
    for (;;) {
        for (long i = 0; i < 1000; i++)
            if (step(i) != i * 3 + 1) atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&rounds, 1);
        if (sleeper) usleep(1000);
    }
    return 0;
}
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    for (long i = 0; i < n; i++) {
        pthread_t t;
        pthread_create(&t, 0, work, (void *)(long)(i > 0));
    }
    printf("ready\n");
    char line[64];
    while (fgets(line, sizeof line, stdin)) printf("%lu %lu %ld\n", rounds, wrong, step(1));
    return 0;
}
