// Turns the time stamp of each row into a date with localtime, which looks after the time zone each time.
#include "hclock.h"
static int day_of_row(time_t stamp) {
    IN;
    struct tm *t = localtime(&stamp); // HERE
    OUT;
    return t->tm_yday;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long rows = argc > 1 ? atol(argv[1]) : 1500000; long sum = 0; uint64_t x = 1;
    for (long i = 0; i < rows; i++) { for (int k = 0; k < 15; k++) x = mixed(x); sum += day_of_row((time_t)(1500000000 + (x % 200000000))); }
    printf("%ld\n", sum); CLOCK_SAY;
}
