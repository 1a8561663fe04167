/* Ends of threads: return, pthread_exit in a callback, cancellation of both kinds, cleanup and destructor order. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <semaphore.h>
static pthread_key_t key;
static char trail[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready, cancelled;
static void mark(const char *text) {
    pthread_mutex_lock(&lock);
    strcat(trail, text);
    pthread_mutex_unlock(&lock);
}
static void at_key(void *value) {
    char text[40];
    snprintf(text, sizeof text, "key%d;", call_back(plain, (int)(long)value));
    mark(text);
}
static void cleanup(void *value) {
    mark(value);
    plain(1);
}
static int exits(int value) {
    pthread_exit((void *)(long)(value + plain(0)));
}
static void *by_return(void *argument) {
    pthread_setspecific(key, (void *)1L);
    return argument;
}
static void *by_exit(void *argument) {
    pthread_setspecific(key, (void *)2L);
    pthread_cleanup_push(cleanup, "A;");
    pthread_cleanup_push(cleanup, "B;");
    call_back_other(exits, 41);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(1);
    return argument;
}
static int sleeps(int value) {
    sem_post(&ready);
    for (unsigned left = 1; left;) left = sleep((unsigned)value);
    return value;
}
static void *by_cancel(void *argument) {
    pthread_setspecific(key, (void *)3L);
    pthread_cleanup_push(cleanup, "C;");
    call_back_other(sleeps, 100);
    pthread_cleanup_pop(1);
    return argument;
}
static int spins(int value) {
    sem_post(&ready);
    for (volatile int i = value; i; i |= 1) {}
    return value;
}
static void *by_async(void *argument) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    pthread_cleanup_push(cleanup, "D;");
    call_back(spins, 1);
    pthread_cleanup_pop(1);
    return argument;
}
static void unlock(void *mutex) { pthread_mutex_unlock(mutex); }
static void *by_condition(void *argument) {
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&own);
    pthread_cleanup_push(unlock, &own);
    sem_post(&ready);
    for (;;) pthread_cond_wait(&condition, &own);
    pthread_cleanup_pop(1);
    return argument;
}
static void *by_test(void *argument) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    sem_post(&ready);
    sem_wait(&cancelled);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
    pthread_testcancel();
    return argument;
}
static void *try_cancelled(void *(*routine)(void *)) {
    pthread_t thread;
    pthread_create(&thread, 0, routine, 0);
    sem_wait(&ready);
    usleep(1000);
    pthread_cancel(thread);
    if (routine == by_test) sem_post(&cancelled);
    void *result;
    pthread_join(thread, &result);
    return result;
}
static void *leaves_last(void *argument) {
    pthread_join(*(pthread_t *)argument, 0);
    printf("after main's end: %d\n", plain(7));
    fflush(stdout);
    exit(23);
}
int main(void) {
    sem_init(&ready, 0, 0);
    sem_init(&cancelled, 0, 0);
    pthread_key_create(&key, at_key);
    void *result;
    pthread_t thread;
    for (int round = 0; round < 20; round++) {
        trail[0] = 0;
        pthread_create(&thread, 0, by_return, (void *)5L), pthread_join(thread, &result);
        printf("return %ld %s\n", (long)result, trail), trail[0] = 0;
        pthread_create(&thread, 0, by_exit, 0), pthread_join(thread, &result);
        printf("exit %ld %s\n", (long)result, trail), trail[0] = 0;
        result = try_cancelled(by_cancel);
        printf("cancelled %d %s\n", result == PTHREAD_CANCELED, trail), trail[0] = 0;
        result = try_cancelled(by_async);
        printf("asynchronous %d %s\n", result == PTHREAD_CANCELED, trail), trail[0] = 0;
        result = try_cancelled(by_condition);
        printf("in a wait %d\n", result == PTHREAD_CANCELED);
        result = try_cancelled(by_test);
        printf("tested %d\n", result == PTHREAD_CANCELED);
    }
    fflush(stdout);
    static pthread_t self;
    self = pthread_self();
    pthread_create(&thread, 0, leaves_last, &self);
    pthread_exit(0);
}
