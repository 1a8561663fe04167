// A timer's signal handler does the work; the program itself only counts.
#include "../own_clock.h"
#include <signal.h>
#include <sys/time.h>

enum { POINTS = 4096 };
static uint32_t points[POINTS];
static volatile sig_atomic_t ticks;
static volatile double ticking;

__attribute__((noinline)) static void refresh_points(void) {
    for (int round = 0; round < 500; round++)
        for (int i = 1; i < POINTS; i++)
            points[i] = (points[i] + points[i - 1]) * 31 + 7; // culprit
}

static void on_tick(int signal) {
    (void)signal;
    double start = seconds();
    refresh_points();
    ticking += seconds() - start;
    ticks++;
}

static uint64_t count_until(long wanted) {
    uint64_t counted = 0;
    while (ticks < wanted)
        counted++;
    return counted;
}

int main(int argc, char **argv) {
    long wanted = amount(argc, argv, 350);
    double begin = seconds();
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    // Each tick takes longer than until the next one on most machines: hardly anything else is done.
    struct itimerval every = {{0, 6000}, {0, 6000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    uint64_t counted = count_until(wanted);
    setitimer(ITIMER_REAL, &never, NULL);
    return tell(ticking, begin, (double)(points[9] % 1000) + (counted > 0));
}
