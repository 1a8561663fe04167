// Twelve threads simulate at once, but all on one CPU: most of the time they wait to be run.
#include "../own_clock.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

enum { THREADS = 12 };
static long cases;

struct simulation {
    pthread_t thread;
    uint64_t state;
    double lived, waited;
};

/* Seconds that this thread was ready but not run, by the kernel's own account. */
static double run_delay(void) {
    char path[64];
    long long ran = 0, delay = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lld %lld", &ran, &delay) != 2)
        exit(1);
    fclose(file);
    return 1e-9 * (double)delay;
}

__attribute__((noinline)) static uint64_t simulate(uint64_t state) {
    for (int i = 0; i < 1000000; i++)
        state = scrambled(state + 1); // culprit
    return state;
}

static void *simulator(void *argument) {
    struct simulation *simulation = argument;
    double start = seconds(), before = run_delay();
    for (long i = 0; i < cases; i++)
        simulation->state = simulate(simulation->state);
    simulation->waited = run_delay() - before;
    simulation->lived = seconds() - start;
    return NULL;
}

int main(int argc, char **argv) {
    cases = amount(argc, argv, 40);
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one); // culprit
    double begin = seconds(), lived = 0, waited = 0, sum = 0;
    struct simulation simulations[THREADS];
    for (int i = 0; i < THREADS; i++) {
        simulations[i].state = (uint64_t)i;
        pthread_create(&simulations[i].thread, NULL, simulator, &simulations[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(simulations[i].thread, NULL);
        lived += simulations[i].lived;
        waited += simulations[i].waited;
        sum += (double)(simulations[i].state % 100);
    }
    // Of the life of its threads, as much of the wall time.
    return tell(waited / lived * (seconds() - begin), begin, sum);
}
