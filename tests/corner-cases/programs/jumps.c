/* setjmp and longjmp: nested, out of callbacks, out of signal handlers, into the same frame many times. */
#include "../libraries/callbacks.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static jmp_buf outer, inner;
static sigjmp_buf from_signal;
static int jump_out(int value) {
    plain(value);
    longjmp(value % 2 ? inner : outer, value);
}
static int compare(const void *a, const void *b) {
    if (plain(*(const int *)a) == 3 * 7 + 1) longjmp(outer, 77);
    return *(const int *)a - *(const int *)b;
}
static int nest(int depth) {
    jmp_buf here;
    volatile int seen = 0;
    int r = setjmp(here);
    if (r == 0) {
        seen = plain(depth);
        if (depth > 0) nest(depth - 1);
        longjmp(here, depth + 1);
    }
    return seen + r;
}
static void on_signal(int signal) {
    plain(signal);
    siglongjmp(from_signal, signal);
}
static volatile sig_atomic_t armed;
static void on_alarm(int signal) {
    (void)signal;
    plain(3);
    if (armed) armed = 0, siglongjmp(from_signal, 1);
}
int main(void) {
    volatile int count = 0;
    for (int i = 0; i < 5; i++) {
        int r = setjmp(outer);
        if (r) { printf("outer %d\n", r); continue; }
        int s = setjmp(inner);
        if (s) {
            printf("inner %d\n", s);
            if (s < 4) call_back_other(jump_out, s + 1);
            continue;
        }
        call_back_other(jump_out, i + 1);
    }
    int values[] = {9, 8, 7, 6, 5};
    if (setjmp(outer) == 0) qsort(values, 5, sizeof(int), compare), puts("sorted");
    else puts("out of qsort");
    printf("nested %d\n", nest(50));

    volatile long rounds = 0;
    if (setjmp(inner) || 1) rounds++;
    if (rounds < 50000) call_back_deep(jump_out, 1, rounds % 10);
    printf("rounds %ld\n", rounds);

    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 1000; i++) {
        if (sigsetjmp(from_signal, 1) == 0) raise(SIGUSR1), puts("unreachable");
        count++;
    }
    printf("out of handlers %d\n", count);

    /* Asynchronous: the handler jumps out of whatever call is open. */
    signal(SIGALRM, on_alarm);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, 0);
    volatile int jumped = 0;
    while (jumped < 200) {
        if (sigsetjmp(from_signal, 1) == 0) {
            armed = 1;
            for (volatile long i = 0;; i++) plain((int)i), call_back_other(plain, 5);
        }
        jumped++;
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, 0);
    printf("asynchronous %d %d\n", jumped, call_back_other(plain, 1));
    return 0;
}
