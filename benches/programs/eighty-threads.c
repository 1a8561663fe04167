/* 80 threads that share a queue: a mutex, a condition, allocation, formatting, compression of text by hand. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { THREADS = 80, CAPACITY = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char *queue[CAPACITY];
static int count, closed;
static long total;
static int compare(const void *a, const void *b) { return *(const unsigned char *)a - *(const unsigned char *)b; }
static void *work(void *argument) {
    long own = 0;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!count && !closed) pthread_cond_wait(&changed, &lock);
        char *item = count ? queue[--count] : 0;
        pthread_mutex_unlock(&lock);
        if (!item) break;
        pthread_cond_signal(&changed);
        size_t length = strlen(item);
        char *copy = malloc(length + 1);
        memcpy(copy, item, length + 1);
        qsort(copy, length, 1, compare);
        for (size_t i = 0; i < length; i++) own += copy[i] * (long)i;
        own += strtol(item, 0, 10);
        free(copy);
        free(item);
    }
    __atomic_fetch_add(&total, own, __ATOMIC_RELAXED);
    return argument;
}
int main(int argc, char **argv) {
    long items = argc > 1 ? atol(argv[1]) : 60000;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, 0);
    for (long i = 0; i < items; i++) {
        char *text = malloc(600);
        int n = snprintf(text, 600, "%ld ", i);
        for (; n < 500; n++) text[n] = (char)('a' + (i * 7 + n * n) % 26);
        text[n] = 0;
        for (;;) {
            pthread_mutex_lock(&lock);
            if (count < CAPACITY) break;
            pthread_cond_wait(&changed, &lock);
            pthread_mutex_unlock(&lock);
        }
        queue[count++] = text;
        pthread_mutex_unlock(&lock);
        pthread_cond_signal(&changed);
    }
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_mutex_unlock(&lock);
    pthread_cond_broadcast(&changed);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%ld\n", total);
    return 0;
}
