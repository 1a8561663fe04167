// Threads that live for a moment: each makes its successor, with which it shares a counter, and ends. The first thread ends,
// too. It tells where the counters are.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { CHAINS = 3 };
volatile long counted[CHAINS];

static void *link_of(void *argument) {
    volatile long *count = argument;
    for (int i = 0; i < 20000; i++) ++*count;
    pthread_t next;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    while (pthread_create(&next, &detached, link_of, argument)) {}
    return 0;
}

int main(void) {
    alarm(120);
    for (int i = 0; i < CHAINS; i++) link_of((void *)&counted[i]);
    printf("ready\n%lu\n", (unsigned long)counted);
    fflush(stdout);
    pthread_exit(0);
}
