// Wipes the marks of a whole board before each short search on it.
#include "../own_clock.h"
#include <pthread.h>

enum { SIDE = 512 };
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static unsigned char marks[SIDE * SIDE], walls[SIDE * SIDE];

__attribute__((noinline)) static void wipe_marks(void) {
    memset(marks, 0, sizeof marks); // culprit
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static long search_near(uint64_t start) {
    long found = 0;
    size_t at = start % (SIDE * SIDE);
    for (int step = 0; step < 200; step++) {
        found += !marks[at] && !walls[at];
        marks[at] = 1;
        at = (at + (step & 1 ? 1 : SIDE)) % (SIDE * SIDE);
    }
    return found;
}

// Waits all the time, for nothing.
static void *idle_thread(void *nothing) {
    pthread_mutex_lock(&idle_lock);
    for (;;)
        pthread_cond_wait(&never, &idle_lock);
    return nothing;
}

int main(int argc, char **argv) {
    long searches = amount(argc, argv, 260000);
    double begin = seconds(), wiping = 0, sum = 0;
    pthread_t idle;
    pthread_create(&idle, NULL, idle_thread, NULL);
    for (size_t i = 0; i < sizeof walls; i++)
        walls[i] = scrambled(i) % 3 == 0;
    for (long i = 0; i < searches; i++) {
        double start = seconds();
        wipe_marks();
        wiping += seconds() - start;
        sum += (double)search_near(scrambled((uint64_t)i));
    }
    return tell(wiping, begin, sum);
}
