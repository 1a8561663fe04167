// What a program knows of itself: how long it runs, and the share of its wall time in functions, which it times around
// each call. Printed as one line of JSON at the end.
#pragma once
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { TRUTH_MOST = 16 };
static struct {
    const char *function[TRUTH_MOST];
    uint64_t ns[TRUTH_MOST], start, end, start_cpu, operations, clock;
    int used, fixed;
    const char *folder;
} truth;

static inline uint64_t truth_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t truth_processor_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// On CPUs since the start, of all threads.
static inline uint64_t truth_processor_time(void) { return truth_processor_clock() - truth.start_cpu; }

// What one look at the clock takes: of a call between two looks, that much is theirs. The shortest of several stretches, for
// others may be at work.
static inline uint64_t truth_clock_cost(void) {
    uint64_t least = UINT64_MAX;
    for (int stretch = 0; stretch < 20; stretch++) {
        uint64_t then = truth_now(), now = then;
        for (int look = 0; look < 100; look++)
            now = truth_now();
        least = now - then < least ? now - then : least;
    }
    return least / 100;
}

// What is measured starts now, and goes on for so long.
static inline void truth_start(uint64_t ns) {
    truth.start_cpu = truth_processor_clock();
    truth.start = truth_now();
    truth.end = truth.start + ns;
}

static volatile sig_atomic_t truth_told_to_end;

static void truth_end_now(int signal) {
    (void)signal;
    truth_told_to_end = 1;
}

// SIGUSR1 ends the work before its time.
static inline void truth_heed_signal(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_RESTART;
    action.sa_handler = truth_end_now;
    sigaction(SIGUSR1, &action, NULL);
}

// SECONDS [--fixed[=N]] [--folder DIR] [anything else, left alone].
static inline void truth_begin(int argc, char **argv) {
    double seconds = 3;
    truth.folder = "/var/tmp";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--fixed") == 0)
            truth.fixed = 1;
        else if (strncmp(argv[i], "--fixed=", 8) == 0)
            truth.fixed = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "--folder") == 0 && i + 1 < argc)
            truth.folder = argv[++i];
        else if (argv[i][0] >= '0' && argv[i][0] <= '9')
            seconds = atof(argv[i]);
    }
    truth_heed_signal();
    truth.clock = truth_clock_cost();
    truth_start((uint64_t)(seconds * 1e9));
}

static inline int truth_running(void) { return !truth_told_to_end && truth_now() < truth.end; }

// Number of a function whose time is taken.
static inline int truth_function(const char *name) {
    truth.function[truth.used] = name;
    return truth.used++;
}

static inline void truth_print(void) {
    double wall = (double)(truth_now() - truth.start);
    printf("{\"truth\": true, \"pid\": %d, \"wall_ns\": %.0f, \"cpu_ns\": %llu, \"operations\": %llu, \"shares\": {", (int)getpid(), wall,
           (unsigned long long)truth_processor_time(), (unsigned long long)truth.operations);
    for (int i = 0; i < truth.used; i++)
        printf("%s\"%s\": %.5f", i ? ", " : "", truth.function[i], (double)truth.ns[i] / wall);
    printf("}}\n");
    fflush(stdout);
}

#define TRUTH_TIMED(number, call)                                                    \
    do {                                                                             \
        uint64_t truth_then = truth_now(), truth_took;                               \
        call;                                                                        \
        truth_took = truth_now() - truth_then;                                       \
        truth.ns[number] += truth_took > truth.clock ? truth_took - truth.clock : 0; \
    } while (0)

// A name under which other views and ps show this thread.
static inline void truth_name(const char *name) { prctl(PR_SET_NAME, name); }

// Arithmetic that no compiler takes apart.
static inline uint64_t truth_mixed(uint64_t x, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        x ^= x >> 31;
        x *= 0x9e3779b97f4a7c15u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}
