// Priority inversion: a keeper that hardly gets a CPU (nice 19, beside as many busy threads as there are CPUs and one more)
// holds a lock that another thread wants. Prints how long that one waited, what the keeper ran meanwhile, and the active threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 4 };
static const long WORK_NS = 4000000;
pthread_mutex_t lock_inverted;
static pthread_barrier_t held, released;
static volatile int ended;
static volatile unsigned long sink;
static long long waited_ns, ran_ns;

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline)) static void compute_under_lock(void) {
    long long end = now(CLOCK_THREAD_CPUTIME_ID) + WORK_NS;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 1000; i++)
            sink += i;
}

static void *keep(void *none) {
    pthread_setname_np(pthread_self(), "keeper");
    setpriority(PRIO_PROCESS, gettid(), 19);
    for (int i = 0; i < TIMES; i++) {
        pthread_mutex_lock(&lock_inverted);
        pthread_barrier_wait(&held);
        long long began = now(CLOCK_THREAD_CPUTIME_ID);
        compute_under_lock();
        ran_ns += now(CLOCK_THREAD_CPUTIME_ID) - began;
        pthread_mutex_unlock(&lock_inverted);
        pthread_barrier_wait(&released);
    }
    return none;
}

static void *want(void *none) {
    pthread_setname_np(pthread_self(), "wanter");
    for (int i = 0; i < TIMES; i++) {
        pthread_barrier_wait(&held);
        long long began = now(CLOCK_MONOTONIC);
        pthread_mutex_lock(&lock_inverted);
        waited_ns += now(CLOCK_MONOTONIC) - began;
        pthread_mutex_unlock(&lock_inverted);
        pthread_barrier_wait(&released);
    }
    ended = 1;
    return none;
}

static void *hog(void *none) {
    pthread_setname_np(pthread_self(), "hog");
    while (!ended)
        for (int i = 0; i < 100000; i++)
            sink += i;
    return none;
}

int main(void) {
    int hogs = get_nprocs() + 1;
    pthread_t thread[hogs + 2];
    pthread_mutex_init(&lock_inverted, NULL);
    pthread_barrier_init(&held, NULL, 2);
    pthread_barrier_init(&released, NULL, 2);
    for (int i = 0; i < hogs; i++)
        pthread_create(&thread[i], NULL, hog, NULL);
    pthread_create(&thread[hogs], NULL, keep, NULL);
    pthread_create(&thread[hogs + 1], NULL, want, NULL);
    for (int i = 0; i < hogs + 2; i++)
        pthread_join(thread[i], NULL);
    printf("%lld %lld %d\n", waited_ns, ran_ns, hogs + 1);
}
