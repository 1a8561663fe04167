/* Calls what it is given, by a pointer, and works a third as long as that itself. */
#include <time.h>
#include <unistd.h>
static long spent;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void spin(long ns) {
    long begin = now(), t;
    while ((t = now()) < begin + ns) {}
    spent += t - begin;
}
void call_each(void (*each)(long), long calls, long ns) {
    for (long i = 0; i < calls; i++) each(ns), spin(ns / 3);
}
/* Goes on in read, by a jump. */
long pass_on(int from, void *to, unsigned long bytes) { return read(from, to, bytes); }
long own_time(void) { return spent; }
