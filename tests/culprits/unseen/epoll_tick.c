// Requests are queued, but the server's loop looks at the queue only when its epoll_wait has timed out.
#include "hclock.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static uint64_t request, answer; static int pending, stop; static long requests = 200;
__attribute__((noinline)) static void serve_requests(int ep) {
    while (!stop) {
        struct epoll_event e;
        epoll_wait(ep, &e, 1, 8); // HERE
        pthread_mutex_lock(&m);
        if (pending) { answer = mixed(request); pending = 0; pthread_cond_signal(&answered); }
        pthread_mutex_unlock(&m);
    }
}
static void *server(void *p) { int ep = epoll_create1(0), ev = eventfd(0, 0); struct epoll_event e = {.events = EPOLLIN}; epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e); serve_requests(ep); return p; }
__attribute__((noinline)) static uint64_t call_server(uint64_t r) {
    IN;
    pthread_mutex_lock(&m);
    request = r; pending = 1;
    while (pending) pthread_cond_wait(&answered, &m); // HERE
    uint64_t a = answer;
    pthread_mutex_unlock(&m);
    OUT;
    return a;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    if (argc > 1) requests = atol(argv[1]);
    pthread_t t; pthread_create(&t, NULL, server, NULL); uint64_t x = 1;
    for (long i = 0; i < requests; i++) { for (int k = 0; k < 500000; k++) x = mixed(x); x += call_server(i); }
    stop = 1; pthread_join(t, NULL);
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
