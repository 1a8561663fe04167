// Eight threads, of which two at a time may ask: each asks while it has one of two permits.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
static sem_t permits;
static volatile long sum;
__attribute__((noinline)) static void ask(void) {
    nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
}
__attribute__((noinline)) static void request(void) {
    for (long i = 0; i < 300000; i++) sum += i;
    sem_wait(&permits);
    ask();
    sem_post(&permits);
}
static void *requests(void *unused) {
    for (int i = 0; i < 60; i++) request();
    return unused;
}
int main(void) {
    pthread_t threads[8];
    sem_init(&permits, 0, 2);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, requests, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    return 0;
}
