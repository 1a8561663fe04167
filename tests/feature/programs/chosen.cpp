// Regions in each other, the innermost of which is left by an exception that the one in the middle catches. It says how
// long it was in each, and how long of that on a processor: `took K NS CPU_NS`.
#include "truth.h"
#include <cstdlib>
#include <ctime>

long entered[16];
static bool around, inside, throwing;

static long now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static struct Stay {
    long took, on_processor, began, began_on_processor;
    void begin() { began = now(), began_on_processor = now(CLOCK_THREAD_CPUTIME_ID); }
    void end() { took += now() - began, on_processor += now(CLOCK_THREAD_CPUTIME_ID) - began_on_processor; }
} stays[4];

__attribute__((noinline)) static void work(long milliseconds) {
    for (long end = now() + milliseconds * 1000000; now() < end;) {
    }
}

__attribute__((noinline)) static void check() {
    if (throwing) { // region 3 {throwing}
        ENTERED(3);
        stays[3].begin();
        work(4);
        throw 1;
    }
}

__attribute__((noinline)) static void caller() {
    if (around) { // region 1 {around}
        stays[1].begin();
        ENTERED(1);
        if (inside) { // region 2 {inside}
            stays[2].begin();
            ENTERED(2);
            try {
                check();
            } catch (int) {
                stays[3].end();
            }
            work(10);
            stays[2].end();
        }
        work(6);
        stays[1].end();
    }
}

int main(int argc, char **argv) {
    around = argc > 1 && std::atoi(argv[1]);
    inside = argc > 2 && std::atoi(argv[2]);
    throwing = argc > 3 && std::atoi(argv[3]);
    for (int i = 0; i < 20; i++)
        caller();
    for (int k = 1; k <= 3; k++)
        printf("took %d %ld %ld\n", k, stays[k].took, stays[k].on_processor);
    say_truth();
    return 0;
}
