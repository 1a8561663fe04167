// Calls of a library from regions, counted by the program itself under what is active there: threads, recursion, regions
// that longjmp leaves, a library that calls back, a child of fork that begins inside of a region, a signal's handler.
// Says `called FEATURES API TIMES`; each process its own.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAST = 1, DEEP = 2, RETRY = 4, ALARM = 8 };
enum { ERF, TGAMMA, LGAMMA, ERFC, APIS };
static const char *names[APIS] = {"erf", "tgamma", "lgamma", "erfc"};
static long called[16][APIS];
static __thread int active;
static volatile double sink;
static int fast, deep, retry, alarms;

#define CALL(api, expression) (__atomic_fetch_add(&called[active][api], 1, __ATOMIC_RELAXED), sink = (expression))

__attribute__((noinline)) static void say(void) {
    for (int set = 0; set < 16; set++)
        for (int api = 0; api < APIS; api++)
            if (called[set][api])
                printf("called %s%s%s%s- %s %ld\n", set & FAST ? "fast," : "", set & DEEP ? "deep," : "", set & RETRY ? "retry," : "",
                       set & ALARM ? "alarms," : "", names[api], called[set][api]);
    fflush(stdout);
}

__attribute__((noinline)) static void descend(int depth) {
    int before = active;
    CALL(TGAMMA, tgamma(depth));
    if (deep) {
        active |= DEEP;
        CALL(ERF, erf(depth));
        if (depth > 0)
            descend(depth - 1);
        CALL(LGAMMA, lgamma(depth + 2));
        active = before;
    }
    CALL(TGAMMA, tgamma(depth));
}

static void *worker(void *argument) {
    long rounds = (long)argument;
    for (long i = 0; i < rounds; i++) {
        int before = active;
        if (fast) {
            active |= FAST;
            CALL(ERF, erf(i));
            descend(i % 7);
            active = before;
        }
        CALL(ERF, erf(i));
    }
    return 0;
}

static jmp_buf back;

__attribute__((noinline)) static void attempt(int value) {
    int before = active;
    if (retry) {
        active |= RETRY;
        CALL(TGAMMA, tgamma(value));
        if (value % 5 == 0)
            longjmp(back, 1);
        descend(1);
        if (value % 7 == 0)
            longjmp(back, 1);
        active = before;
    }
    CALL(ERF, erf(value));
}

__attribute__((noinline)) static void jumps(void) {
    for (volatile int i = 0; i < 200; i++) {
        volatile int before = active;
        if (setjmp(back) == 0)
            attempt(i);
        active = before;
        CALL(LGAMMA, lgamma(i + 2));
    }
}

// As deep as it gets, and out at once.
__attribute__((noinline)) static void fall(int depth) {
    if (retry) {
        active |= RETRY;
        CALL(TGAMMA, tgamma(depth));
        if (depth == 0)
            longjmp(back, 1);
        fall(depth - 1);
        sink = depth;
    }
}

__attribute__((noinline)) static void falls(void) {
    for (volatile int i = 0; i < 4; i++) {
        volatile int before = active;
        if (setjmp(back) == 0)
            fall(1000);
        active = before;
        CALL(LGAMMA, lgamma(i + 2));
    }
}

static int compare(const void *a, const void *b) {
    int before = active, x = *(const int *)a, y = *(const int *)b;
    if (fast) {
        active |= FAST;
        CALL(TGAMMA, tgamma(x));
        active = before;
    }
    CALL(ERF, erf(y));
    return (x > y) - (x < y);
}

__attribute__((noinline)) static void sorted(void) {
    int values[200], before = active;
    for (int i = 0; i < 200; i++)
        values[i] = i * 7919 % 200;
    if (deep) {
        active |= DEEP;
        qsort(values, 200, sizeof values[0], compare);
        CALL(ERF, erf(values[3]));
        active = before;
    }
    CALL(TGAMMA, tgamma(values[4]));
}

__attribute__((noinline)) static void forked(void) {
    int before = active;
    if (retry) {
        active |= RETRY;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (int set = 0; set < 16; set++)
                for (int api = 0; api < APIS; api++)
                    called[set][api] = 0;
            CALL(ERF, erf(1));
            descend(3);
        } else {
            waitpid(child, 0, 0);
            CALL(ERF, erf(2));
        }
        CALL(TGAMMA, tgamma(1));
        active = before;
        if (child == 0) {
            say();
            _exit(0);
        }
    }
    CALL(TGAMMA, tgamma(2));
}

static volatile long rang;

// Its own calls are under `alarms`, and whatever it has come into: only that is counted here.
static void ring(int signal) {
    (void)signal;
    if (alarms) {
        rang++;
        sink = erfc(rang);
    }
}

__attribute__((noinline)) static void interrupted(void) {
    signal(SIGVTALRM, ring);
    struct itimerval every = {{0, 997}, {0, 997}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_VIRTUAL, &every, 0);
    for (long i = 0; i < 2000000; i++) {
        int before = active;
        if (fast) {
            active |= FAST;
            CALL(ERF, erf(i));
            active = before;
        }
        CALL(TGAMMA, tgamma(i));
    }
    setitimer(ITIMER_VIRTUAL, &never, 0);
}

int main(int argc, char **argv) {
    fast = argc > 1 && atoi(argv[1]);
    deep = argc > 2 && atoi(argv[2]);
    retry = argc > 3 && atoi(argv[3]);
    alarms = argc > 4 && atoi(argv[4]);
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, worker, (void *)(100 + 10 * i));
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], 0);
    jumps();
    falls();
    sorted();
    interrupted();
    forked();
    called[ALARM][ERFC] = rang;
    say();
    return 0;
}
