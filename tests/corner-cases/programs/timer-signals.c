/* 1 kHz timer signals whose handlers call APIs, in several threads, optionally on alternate stacks. */
#include "../libraries/callbacks.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, wrong;
static int alternate;
static void on_tick(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    int errno_like = plain(signal);
    char buffer[64];
    snprintf(buffer, sizeof buffer, "%d", errno_like);
    if (atoi(buffer) != signal * 3 + 1) wrong = 1;
    if (call_back_other(plain, 4) != 1014) wrong = 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ticks++;
}
static void *work(void *argument) {
    if (alternate) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&stack, 0);
    }
    long sum = 0;
    while (ticks < 300) {
        for (int i = 0; i < 1000; i++) sum += call_back_deep(plain, i, 3) - i * 3 - 1;
        char *p = malloc(100);
        memset(p, 1, 100);
        free(p);
    }
    *(int *)argument = sum % 5 == 0;
    return 0;
}
int main(int argc, char **argv) {
    (void)argv;
    alternate = argc > 1;
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART | (alternate ? SA_ONSTACK : 0)};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGPROF, &action, 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, 0);
    setitimer(ITIMER_PROF, &timer, 0);
    pthread_t threads[4];
    int good[5] = {0};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &good[i]);
    work(&good[4]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    signal(SIGALRM, SIG_IGN), signal(SIGPROF, SIG_IGN);
    printf("%d %d %d %d %d, wrong %d, enough %d\n", good[0], good[1], good[2], good[3], good[4], wrong, ticks >= 300);
    return 0;
}
