// Masks the digits of long lines, and asks for the length of the line at each of its letters.
#include "../own_clock.h"

enum { LENGTH = 20000 };

static void make_line(char *line, uint64_t seed) {
    for (int i = 0; i < LENGTH; i++) {
        unsigned letter = (unsigned)(scrambled(seed * LENGTH + (uint64_t)i) % 36);
        line[i] = (char)(letter < 10 ? '0' + letter : 'a' + letter - 10);
    }
    line[LENGTH] = 0;
}

__attribute__((noinline)) static void mask_digits(char *line) {
    for (size_t i = 0; i < strlen(line); i++) // culprit
        if (line[i] >= '0' && line[i] <= '9')
            line[i] = '#';
}

static long count_masked(const char *line) {
    long masked = 0;
    for (int i = 0; i < LENGTH; i++)
        masked += line[i] == '#';
    return masked;
}

int main(int argc, char **argv) {
    long lines = amount(argc, argv, 350);
    static char line[LENGTH + 1];
    double begin = seconds(), masking = 0, sum = 0;
    for (long i = 0; i < lines; i++) {
        make_line(line, (uint64_t)i);
        double start = seconds();
        mask_digits(line);
        masking += seconds() - start;
        sum += (double)count_masked(line);
    }
    return tell(masking, begin, sum);
}
