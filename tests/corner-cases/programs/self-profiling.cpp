// A program that profiles itself: at every tick of its own timer the stack must lead back to where it started, through
// calls in progress, their entries and returns and locks, in two threads. (Not through a throw: libgcc's own last steps
// there can't be unwound.)
#include "../libraries/callbacks.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile long ticks, lost;
__attribute__((noinline)) void root();

static void tick(int) {
    void *stack[128];
    int n = backtrace(stack, 128);
    bool found = false;
    for (int i = 0; i < n; i++) {
        char *at = (char *)stack[i];
        found |= at > (char *)root && at < (char *)root + 400;
    }
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
    if (!found) __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
}

static int deeper(int n) {
    pthread_mutex_lock(&mutex);
    int sum = getppid() != 0;
    pthread_mutex_unlock(&mutex);
    return n == 0 ? sum : sum + call_back_other(deeper, n - 1);
}

__attribute__((noinline)) void root() {
    long sum = 0;
    while (__atomic_load_n(&ticks, __ATOMIC_RELAXED) < 1000) {
        sum += call_back(deeper, 6);
        for (int i = 0; i < 100; i++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
            sum += plain(i);
            free(malloc(16));
        }
    }
    asm volatile("" ::"r"(sum) : "memory");
}

static void *start(void *) {
    root();
    return nullptr;
}

int main() {
    void *stack[4];
    backtrace(stack, 4); // loads libgcc_s
    struct sigaction action = {};
    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_t thread;
    pthread_create(&thread, nullptr, start, nullptr);
    itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &timer, nullptr);
    root();
    // Ticks outside of root are none of ours.
    timer = {};
    sigprocmask(SIG_BLOCK, &set, nullptr);
    pthread_join(thread, nullptr);
    setitimer(ITIMER_PROF, &timer, nullptr);
    printf("lost more than the ends of threads explain: %d\n", lost > 20);
}
