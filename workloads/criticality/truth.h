// What a workload knows of itself, printed as one line of JSON when it ends. C and C++.
#ifndef TRUTH_H
#define TRUTH_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRUTH_THREADS 64

struct truth_thread {
    char name[16];
    int pid, tid;
    long long busy_ns;
};

static struct {
    struct timespec begin;
    int fixed;
    int threads;
    struct truth_thread thread[TRUTH_THREADS];
} truth;
static pthread_mutex_t truth_lock = PTHREAD_MUTEX_INITIALIZER;

static long long truth_nanoseconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Reads `--fixed`, and notes the time. */
static int truth_begin(int argc, char **argv) {
    clock_gettime(CLOCK_MONOTONIC, &truth.begin);
    for (int i = 1; i < argc; i++)
        truth.fixed |= strcmp(argv[i], "--fixed") == 0;
    return truth.fixed;
}

/* The value of `--key`, or the default. */
static const char *truth_option(int argc, char **argv, const char *key, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], key) == 0)
            return argv[i + 1];
    return otherwise;
}

/* To be called first in a thread. */
static void truth_name(const char *name) { pthread_setname_np(pthread_self(), name); }

/* To be called last in a thread: notes its CPU time. */
static void truth_note(void) {
    pthread_mutex_lock(&truth_lock);
    if (truth.threads < TRUTH_THREADS) {
        struct truth_thread *t = &truth.thread[truth.threads++];
        pthread_getname_np(pthread_self(), t->name, sizeof t->name);
        t->pid = getpid();
        t->tid = (int)syscall(SYS_gettid);
        t->busy_ns = truth_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    }
    pthread_mutex_unlock(&truth_lock);
}

/* `kind`: what the others wait for. `function`: where the bottleneck is. `object`: what is waited on, "" if it has no
   name. `holder`: names of the threads, by their beginning, that the others wait for, "" if several alike. `speedup`:
   by how much `--fixed` speeds up that function, 0 if the fix is of another sort, -1 if it takes all of it away. */
static void truth_print(const char *kind, const char *function, const char *object, const char *holder, double speedup) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    long long elapsed = (end.tv_sec - truth.begin.tv_sec) * 1000000000LL + end.tv_nsec - truth.begin.tv_nsec;
    printf("{\"truth\": true, \"fixed\": %s, \"elapsed_ns\": %lld, \"kind\": \"%s\", \"function\": \"%s\", \"object\": \"%s\", "
           "\"holder\": \"%s\", \"speedup\": %g, \"threads\": [",
           truth.fixed ? "true" : "false", elapsed, kind, function, object, holder, speedup);
    truth_note();
    for (int i = 0; i < truth.threads; i++)
        printf("%s{\"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"busy_ns\": %lld}", i ? ", " : "", truth.thread[i].name,
               truth.thread[i].pid, truth.thread[i].tid, truth.thread[i].busy_ns);
    printf("]}\n");
    fflush(stdout);
}
#endif
