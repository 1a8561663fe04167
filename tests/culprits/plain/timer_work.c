// A timer's signal handler does the work; the program itself only counts.
#include "../own_clock.h"
#include <signal.h>
#include <sys/time.h>

enum { POINTS = 4096 };
static uint32_t points[POINTS];
static volatile sig_atomic_t ticks;
static volatile double ticking;
static long wanted;

__attribute__((noinline)) static void refresh_points(void) {
    for (int round = 0; round < 1500; round++)
        for (int i = 1; i < POINTS; i++)
            points[i] = (points[i] + points[i - 1]) * 31 + 7; // culprit
}

static void on_tick(int signal) {
    (void)signal;
    double start = seconds();
    refresh_points();
    ticking += seconds() - start;
    // Anew after each tick, so that the program gets on however long a tick takes.
    static const struct itimerval soon = {{0, 0}, {0, 1000}};
    if (++ticks < wanted)
        setitimer(ITIMER_REAL, &soon, NULL);
}

static uint64_t count_ticks(void) {
    uint64_t counted = 0;
    while (ticks < wanted)
        counted++;
    return counted;
}

int main(int argc, char **argv) {
    wanted = amount(argc, argv, 350);
    double begin = seconds();
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    raise(SIGALRM);
    uint64_t counted = count_ticks();
    return tell(ticking, begin, (double)(points[9] % 1000) + (counted > 0));
}
