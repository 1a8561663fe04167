/* Ends the program from inside a library, as interpreters do. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static volatile unsigned long turns;
void run_program(int status) {
    long begin = now();
    while (now() < begin + 100000000) turns++;
    usleep(100000);
    printf("%ld\n", now() - begin);
    exit(status);
}
