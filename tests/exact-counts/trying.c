// A mutex, a rwlock and a spinlock that are tried while another thread holds them, and while nobody does. Prints how often
// each was got, or waited for until the time was over: that of the mutex is, three times for 20 ms.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static void *holder(void *none) {
    (void)none;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    pthread_spin_lock(&spin);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    pthread_spin_unlock(&spin);
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&mutex);
    return 0;
}
static void try_all(long tries, long got[3]) {
    for (long i = 0; i < tries; i++) {
        struct timespec past = {0, 0};
        int mutex_got = i % 4 ? pthread_mutex_trylock(&mutex) : pthread_mutex_timedlock(&mutex, &past);
        if (!mutex_got || mutex_got == ETIMEDOUT) got[0]++;
        if (!mutex_got) pthread_mutex_unlock(&mutex);
        if (!(i % 2 ? pthread_rwlock_tryrdlock(&rwlock) : pthread_rwlock_trywrlock(&rwlock))) got[1]++, pthread_rwlock_unlock(&rwlock);
        if (!pthread_spin_trylock(&spin)) got[2]++, pthread_spin_unlock(&spin);
    }
}
int main(void) {
    long got[3] = {1, 1, 1};
    pthread_t thread;
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, holder, 0);
    pthread_barrier_wait(&barrier);
    try_all(5000, got);
    for (int i = 0; i < 3; i++) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 20000000;
        if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
        got[0] += pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT;
    }
    pthread_barrier_wait(&barrier);
    pthread_join(thread, 0);
    try_all(20000, got);
    printf("%ld %ld %ld\n", got[0], got[1], got[2]);
    return 0;
}
