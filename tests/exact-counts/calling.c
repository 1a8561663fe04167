/* Works in a function that a library calls by a pointer, and holds a lock of its own for long: calling CALLS NANOSECONDS.
 * Prints the library's own time and for how long the lock was held, ns. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>
void call_each(void (*each)(long), long calls, long ns);
long own_time(void);
long pass_on(int from, void *to, unsigned long bytes);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long held;
static void work(long ns) {
    static long number;
    pthread_mutex_lock(&lock);
    unsigned long begin = __rdtsc(), t;
    /* One in 100 takes 100 times as long. */
    unsigned long end = begin + 2 * (unsigned long)(number++ % 100 ? ns / 2 : ns * 50);
    while ((t = __rdtsc()) < end) {}
    held += t - begin;
    pthread_mutex_unlock(&lock);
}
int main(int argc, char **argv) {
    (void)argc;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    unsigned long begin = __rdtsc();
    call_each(work, atol(argv[1]), atol(argv[2]));
    unsigned long ticks = __rdtsc() - begin;
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    FILE *zeros = fopen("/dev/zero", "r");
    static char buffer[1 << 20];
    for (int i = 0; i < 300; i++) pass_on(fileno(zeros), buffer, sizeof buffer);
    printf("%ld %.0f\n", own_time(), held * ns / ticks);
    return 0;
}
