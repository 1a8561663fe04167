/* 4,000 short-lived threads, joined and detached. */
#include "../libraries/callbacks.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static atomic_long sum, finished;
static void *work(void *argument) {
    long own = 0;
    for (int i = 0; i < 100; i++) own += call_back_other(plain, (int)(long)argument + i);
    atomic_fetch_add(&sum, own);
    atomic_fetch_add(&finished, 1);
    return 0;
}
int main(void) {
    for (long batch = 0; batch < 300; batch++) {
        pthread_t threads[10];
        for (long i = 0; i < 10; i++) pthread_create(&threads[i], 0, work, (void *)(batch * 10 + i));
        for (int i = 0; i < 10; i++) pthread_join(threads[i], 0);
    }
    printf("%ld after %ld\n", sum, finished);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (long i = 0; i < 1000; i++) {
        pthread_t thread;
        while (pthread_create(&thread, &attributes, work, (void *)i)) usleep(100);
        while (atomic_load(&finished) + 20 < 3000 + i) usleep(50);
    }
    while (atomic_load(&finished) < 4000) usleep(100);
    printf("%ld after %ld\n", sum, finished);
    return 0;
}
