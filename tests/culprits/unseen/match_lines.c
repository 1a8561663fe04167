// Looks in each line for a doubled word with a regular expression that has a back reference.
#include "hclock.h"
#include <regex.h>
static regex_t doubled;
__attribute__((noinline)) static int has_doubled(const char *line) {
    IN;
    int r = regexec(&doubled, line, 0, NULL, 0) == 0; // HERE
    OUT;
    return r;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long lines = argc > 1 ? atol(argv[1]) : 200000; long sum = 0; char line[80];
    if (regcomp(&doubled, "([a-z]+) ([a-z]+ )*\\1", REG_EXTENDED)) return 1;
    for (long i = 0; i < lines; i++) { for (int k = 0; k < 60; k++) line[k] = k % 7 == 6 ? ' ' : (char)('a' + mixed(i * 60 + k) % 26); line[60] = 0; sum += has_doubled(line); }
    printf("%ld\n", sum); CLOCK_SAY;
}
