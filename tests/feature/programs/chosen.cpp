// Regions in each other, the innermost of which is left by an exception that the one in the middle catches. It says how
// long it was in each, and how long of that on a CPU: `took K NS CPU_NS`.
#include "truth.h"
#include <cstdlib>
#include <ctime>

long entered[16];
static bool around, inside, throwing;

static int counter = processor_counter(0);

static long now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static struct Stay {
    long took, ran, began, ran_before;
    void begin() { began = now(), ran_before = on_processor(counter, 0); }
    void end() { took += now() - began, ran += on_processor(counter, 0) - ran_before; }
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
        printf("took %d %ld %ld\n", k, stays[k].took, stays[k].ran);
    say_truth();
    return 0;
}
