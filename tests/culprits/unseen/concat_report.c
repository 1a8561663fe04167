// Builds a report with strcat, which looks for its end each time.
#include "hclock.h"
static void add_line(char *report, const char *line) {
    IN;
    strcat(report, line); // HERE
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long lines = argc > 1 ? atol(argv[1]) : 200000; char line[64]; char *report = calloc(lines, 40);
    for (long i = 0; i < lines; i++) { snprintf(line, sizeof line, "row %ld: %lu\n", i, (unsigned long)(mixed(i) % 1000)); add_line(report, line); }
    printf("%zu\n", strlen(report)); CLOCK_SAY;
}
