// Two threads allocate their events, which are too big for the caches of the threads, from one arena with one lock.
#include "../own_clock.h"
#include <malloc.h>
#include <pthread.h>

static long events;

__attribute__((noinline)) static unsigned char *make_event(uint64_t number) {
    unsigned char *event = malloc(2000 + number % 7 * 16); // culprit
    event[0] = (unsigned char)number;
    return event;
}

__attribute__((noinline)) static void drop_event(unsigned char *event) {
    free(event); // culprit
}

__attribute__((noinline)) static uint64_t priority_of(uint64_t number) { return scrambled(number) & 3; }

static void *source(void *first) {
    uint64_t sum = 0;
    for (long i = 0; i < events; i++) {
        uint64_t number = (uint64_t)(intptr_t)first + (uint64_t)i;
        unsigned char *event = make_event(number);
        sum += event[0] + priority_of(number);
        drop_event(event);
    }
    return (void *)(intptr_t)(sum & 1023);
}

int main(int argc, char **argv) {
    events = amount(argc, argv, 2800000);
    double begin = seconds();
    mallopt(M_ARENA_MAX, 1);
    pthread_t other;
    pthread_create(&other, NULL, source, (void *)1000000000);
    uint64_t sum = (uint64_t)(intptr_t)source(NULL);
    pthread_join(other, NULL);
    double start = seconds();
    for (long i = 0; i < events / 10; i++)
        sum += priority_of((uint64_t)i);
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, (double)sum);
}
