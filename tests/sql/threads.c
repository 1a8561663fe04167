// Threads that compute, wait for a lock, for a condition and for a file.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static unsigned long long shared;
static int done;

__attribute__((noinline)) static unsigned long long mixed(unsigned long long value, int rounds) {
    for (int i = 0; i < rounds; i++) value = value * 6364136223846793005ull + 1442695040888963407ull;
    return value;
}

__attribute__((noinline)) static void update(int rounds) {
    pthread_mutex_lock(&lock);
    shared = mixed(shared, rounds);
    pthread_mutex_unlock(&lock);
}

static void *worker(void *number) {
    for (int i = 0; i < 60; i++) {
        char *copy = malloc(4096);
        memset(copy, i, 4096);
        update(500000 + copy[17]);
        shared ^= mixed((unsigned long)number, 1000000);
        free(copy);
    }
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_signal(&change);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *reader(void *path) {
    char part[65536];
    unsigned sum = 0;
    for (int round = 0; round < 40; round++) {
        int file = open(path, O_RDONLY);
        for (ssize_t got; file >= 0 && (got = read(file, part, sizeof part)) > 0;) sum += part[got / 2];
        close(file);
        usleep(1000);
    }
    return (void *)(unsigned long)sum;
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, worker, (void *)i);
    pthread_create(&threads[3], NULL, reader, arguments[count - 1]);
    pthread_mutex_lock(&lock);
    while (done < 3) pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%llu\n", shared);
    return 0;
}
