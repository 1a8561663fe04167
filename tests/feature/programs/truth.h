// Programs count how often they enter a region and say so on standard output: `entered K TIMES` for the region whose
// decision has the comment `region K {FEATURES}`.
#ifndef TRUTH_H
#define TRUTH_H
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
extern long entered[16];
#define ENTERED(k) ((void)__atomic_fetch_add(&entered[k], 1, __ATOMIC_RELAXED))

/* A counter of the time, ns, that this thread is on a CPU (with `all`, and those it makes from now on): from switch to
   switch. A CPU clock leaves out what the host of a virtual machine takes meanwhile. Gives -1 if there is none. */
static inline int processor_counter(int all) {
    struct perf_event_attr clock;
    memset(&clock, 0, sizeof clock);
    clock.type = PERF_TYPE_SOFTWARE;
    clock.size = sizeof clock;
    clock.config = PERF_COUNT_SW_TASK_CLOCK;
    clock.exclude_kernel = clock.exclude_hv = 1; /* what anyone may count; the time is the same */
    clock.inherit = all != 0;
    return (int)syscall(SYS_perf_event_open, &clock, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* What a counter says; without one, the thread's CPU clock (the process' with `all`). */
static inline long on_processor(int counter, int all) {
    long ns;
    struct timespec time;
    if (counter >= 0 && read(counter, &ns, sizeof ns) == sizeof ns)
        return ns;
    clock_gettime(all ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static inline void say_truth(void) {
    for (int k = 1; k < 16; k++)
        if (entered[k])
            printf("entered %d %ld\n", k, entered[k]);
    fflush(stdout);
}
#ifdef __cplusplus
}
#endif
#endif
