// A random schedule: phases in which some threads work for a given CPU time or sleep until a given instant, and
// the others wait on a futex. Prints each change of activity with its instant, from which a reader computes what each
// thread's criticality must be. Usage: schedule SEED THREADS PHASES MOST [hop]: at most MOST threads work at once;
// with `hop` each thread moves to another CPU in every phase.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, PHASES = 512, EVENTS = 1 << 16 };
static struct event {
    long long at;
    int thread, change;
} log_of[EVENTS];
static atomic_int logged;
static struct task {
    unsigned work_us, sleep_us; // both 0: not in this phase
} plan[PHASES + 1][THREADS];
static int threads, phases, hop, tid[THREADS];
static atomic_int turn[THREADS], remaining;

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(int thread, int change, long long at) {
    log_of[atomic_fetch_add(&logged, 1)] = (struct event){at, thread, change};
}

static void start_phase(int phase, int self) {
    int members = 0;
    for (int i = 0; i < threads; i++)
        members += plan[phase][i].work_us || plan[phase][i].sleep_us || phase == phases;
    atomic_store(&remaining, members);
    for (int i = 0; i < threads; i++)
        if (i != self && (plan[phase][i].work_us || plan[phase][i].sleep_us || phase == phases)) {
            // The thread counts as active from its waking on, whenever it gets a CPU.
            note(i, +1, now(CLOCK_MONOTONIC));
            atomic_store(&turn[i], phase + 1);
            syscall(SYS_futex, &turn[i], FUTEX_WAKE_PRIVATE, 1);
        }
}

static void *run(void *argument) {
    int self = (int)(long)argument;
    char name[16];
    snprintf(name, sizeof name, "phased-%d", self);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1);
    tid[self] = (int)syscall(SYS_gettid);
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int reached = 0;
    for (;;) {
        if (atomic_load(&turn[self]) <= reached) {
            note(self, -1, now(CLOCK_MONOTONIC));
            for (int there; (there = atomic_load(&turn[self])) <= reached;)
                syscall(SYS_futex, &turn[self], FUTEX_WAIT_PRIVATE, there, NULL);
            note(self, +1, now(CLOCK_MONOTONIC)); // says nothing new unless it never slept
        }
        reached = atomic_load(&turn[self]);
        int phase = reached - 1;
        if (phase == phases)
            break;
        if (hop) {
            int cpu = (self + phase) % CPU_COUNT(&allowed), seen = -1;
            cpu_set_t one;
            CPU_ZERO(&one);
            for (int i = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, &allowed) && ++seen == cpu)
                    CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
        struct task *t = &plan[phase][self];
        if (t->sleep_us) {
            long long begin = now(CLOCK_MONOTONIC), end = begin + t->sleep_us * 1000LL;
            struct timespec until = {end / 1000000000, end % 1000000000};
            note(self, -1, begin);
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
            note(self, +1, end);
        }
        long long end = now(CLOCK_THREAD_CPUTIME_ID) + t->work_us * 1000LL;
        while (now(CLOCK_THREAD_CPUTIME_ID) < end)
            for (volatile int i = 0; i < 2000; i++)
                ;
        if (atomic_fetch_sub(&remaining, 1) == 1) {
            struct task *next = &plan[phase + 1][self];
            int stays = next->work_us || next->sleep_us || phase + 1 == phases;
            if (stays)
                atomic_store(&turn[self], phase + 2);
            start_phase(phase + 1, self);
        }
    }
    note(self, -1, now(CLOCK_MONOTONIC));
    return NULL;
}

static unsigned long long state;
static unsigned draw(unsigned below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return fprintf(stderr, "usage: schedule SEED THREADS PHASES MOST [hop]\n"), 2;
    enum { main_thread = THREADS - 1 };
    int most = atoi(argv[4]);
    note(main_thread, +1, now(CLOCK_MONOTONIC));
    state = strtoull(argv[1], NULL, 10) * 977 + 11;
    threads = atoi(argv[2]), phases = atoi(argv[3]), hop = argc > 5;
    if (threads >= main_thread || phases > PHASES || most > threads)
        return 2;
    for (int p = 0; p < phases; p++) {
        unsigned members = 1 + draw(most), equal = draw(2), length = 3000 + draw(20000);
        while (members > 0) {
            unsigned i = draw(threads);
            if (plan[p][i].work_us)
                continue;
            plan[p][i].work_us = equal ? length : 2000 + draw(20000);
            if (draw(5) == 0)
                plan[p][i].sleep_us = 1000 + draw(12000);
            members--;
        }
    }
    tid[main_thread] = (int)syscall(SYS_gettid);
    pthread_t handle[THREADS];
    for (int i = 0; i < threads; i++) {
        note(i, +1, now(CLOCK_MONOTONIC));
        pthread_create(&handle[i], NULL, run, (void *)(long)i);
    }
    start_phase(0, -1);
    note(main_thread, -1, now(CLOCK_MONOTONIC));
    for (int i = 0; i < threads; i++)
        pthread_join(handle[i], NULL);
    note(main_thread, +1, now(CLOCK_MONOTONIC));
    printf("{\"tids\": [");
    for (int i = 0; i < THREADS; i++)
        printf("%s%d", i ? ", " : "", tid[i]);
    printf("], \"events\": [");
    for (int i = 0; i < atomic_load(&logged); i++)
        printf("%s[%lld, %d, %d]", i ? ", " : "", log_of[i].at, log_of[i].thread, log_of[i].change);
    printf("]}\n");
}
