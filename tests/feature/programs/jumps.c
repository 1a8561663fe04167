// Regions that longjmp leaves.
#include "truth.h"
#include <setjmp.h>
#include <stdlib.h>

long entered[16];
static int retry, log_level;
static jmp_buf back;

__attribute__((noinline)) static void attempt(int value) {
    if (log_level) { // region 1 {log}
        ENTERED(1);
        if (value % 5 == 0)
            longjmp(back, 1);
        usleep(0);
    }
}

int main(int argc, char **argv) {
    retry = argc > 1 && atoi(argv[1]);
    log_level = argc > 2 && atoi(argv[2]);
    for (volatile int i = 0; i < 200; i++) {
        if (setjmp(back) == 0)
            attempt(i);
        if (retry) { // region 2 {retry}
            ENTERED(2);
            usleep(0);
        }
    }
    say_truth();
    return 0;
}
