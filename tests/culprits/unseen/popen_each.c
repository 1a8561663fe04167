// Asks a shell for the number of words of each line.
#include "hclock.h"
__attribute__((noinline)) static int words_of(long i) {
    char command[100]; int n = 0;
    snprintf(command, sizeof command, "set -- a b c%ld; echo $#", i);
    IN;
    FILE *f = popen(command, "r"); // HERE
    if (!f || fscanf(f, "%d", &n) != 1) abort(); // HERE
    pclose(f); // HERE
    OUT;
    return n;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long lines = argc > 1 ? atol(argv[1]) : 2000; long sum = 0; uint64_t x = 1;
    for (long i = 0; i < lines; i++) { for (int k = 0; k < 30000; k++) x = mixed(x); sum += words_of(i + (x & 1)); }
    printf("%ld\n", sum); CLOCK_SAY;
}
