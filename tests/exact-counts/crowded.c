/* Threads that read and search, each call by the clock: crowded THREADS CALLS [SIZE], which searches in so many bytes. What two readings of the clock take, or what their
 * thread waits for a CPU between them, is measured as often and taken off. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>
enum { SIZE = 1 << 17, READ = 1 << 14, THREADS = 64 };
static long calls, searched = SIZE, spent[THREADS][3];
static char buffers[THREADS][SIZE], *large;
static long now(void) {
    _mm_lfence();
    long ticks = (long)__rdtsc();
    _mm_lfence();
    return ticks;
}
#define TIMED(number, what) do { long begin = now(); what; spent[i][number] += now() - begin; } while (0)
static void *work(void *argument) {
    long i = (long)argument, sink = 0;
    int zero = open("/dev/zero", O_RDONLY);
    for (long call = 0; call < calls; call++) {
        TIMED(0, sink += read(zero, buffers[i], READ));
        TIMED(1, sink += memchr(searched > SIZE ? large : buffers[i], 1 + (int)(call & 1), searched) != NULL);
        TIMED(2, );
    }
    close(zero);
    return (void *)sink;
}
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 8;
    calls = argc > 2 ? atol(argv[2]) : 1000;
    if (argc > 3) large = calloc(1, searched = atol(argv[3]));
    pthread_t all[THREADS];
    double began = seconds();
    long ticks = now();
    for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void *)i);
    for (long i = 0; i < threads; i++) pthread_join(all[i], NULL);
    double ns = (seconds() - began) * 1e9 / (double)(now() - ticks);
    for (int what = 0; what < 2; what++) {
        double sum = 0;
        for (long i = 0; i < threads; i++) sum += (double)(spent[i][what] - spent[i][2]);
        printf("%.0f ", sum * ns);
    }
    puts("");
    return 0;
}
