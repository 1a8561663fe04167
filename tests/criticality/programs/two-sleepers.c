// Four threads sleep by turns in two functions, equally often: in one of them under a lock. Both call the same function with
// equal stack pointers. Prints how often each slept.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 4, TIMES = 100 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int under, beside;

static void pause_for(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

__attribute__((noinline)) static void sleeps_under_lock(void) {
    pause_for(3000000);
    under++;
}

__attribute__((noinline)) static void sleeps_beside(void) {
    pause_for(3000000);
    __atomic_add_fetch(&beside, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *unused) {
    for (int i = 0; i < TIMES; i++) {
        pthread_mutex_lock(&lock);
        sleeps_under_lock();
        pthread_mutex_unlock(&lock);
        sleeps_beside();
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d\n", under, beside);
}
