// Threads that wait with a timeout, in calls that give up when they are interrupted; answers with the longest time of
// each (ms), and how many waits were too short or failed otherwise.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <time.h>
#define TIMEOUT_MS 300
static atomic_long longest[4], ended[4], wrong;
static void *waiter(void *argument) {
    long how = (long)argument;
    int ep = epoll_create1(0), sem = semget(IPC_PRIVATE, 1, 0600);
    struct epoll_event got;
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    const struct timespec timeout = {0, TIMEOUT_MS * 1000000L};
    for (;;) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        long result = 0;
        switch (how) {
        case 0: result = epoll_wait(ep, &got, 1, TIMEOUT_MS); break;
        case 1: { struct sembuf s = {0, -1, 0}; result = semtimedop(sem, &s, 1, &timeout); break; }
        case 2: result = sigtimedwait(&usr2, 0, &timeout); break;
        case 3: result = epoll_pwait(ep, &got, 1, TIMEOUT_MS, 0); break;
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        long ns = (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
        // A jiffy is what semtimedop counts in.
        if (ns < (TIMEOUT_MS - 11) * 1000000L || (result < 0 && errno != EAGAIN)) atomic_fetch_add(&wrong, 1);
        if (ns / 1000000 > atomic_load(&longest[how])) atomic_store(&longest[how], ns / 1000000);
        atomic_fetch_add(&ended[how], 1);
    }
    return 0;
}
int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, 0);
    for (long i = 0; i < 4; i++) {
        pthread_t t;
        pthread_create(&t, 0, waiter, (void *)i);
    }
    puts("ready");
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < 4; i++) printf("%ld:%ld ", ended[i], longest[i]);
        printf("%ld\n", wrong);
    }
}
