// Matches names against a pattern with many stars by trying all ways. Stripped; what is for the debugger is in a file beside.
#include "../own_clock.h"

static char names[1000][32];

__attribute__((noinline)) static int matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (*pattern == '*') {
            for (;; name++) {
                if (matches(pattern + 1, name)) // culprit
                    return 1;
                if (!*name)
                    return 0;
            }
        }
        if (*pattern != *name) // culprit
            return 0;
    }
    return !*name;
}

__attribute__((noinline)) static int is_hidden(const char *name) { return name[0] == '.'; }

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 6);
    double begin = seconds(), matching = 0, sum = 0;
    for (int i = 0; i < 1000; i++)
        for (int k = 0; k < 30; k++)
            names[i][k] = (char)('a' + scrambled((uint64_t)(i * 100 + k)) % 2);
    for (long round = 0; round < rounds; round++)
        for (int i = 0; i < 1000; i++) {
            for (int k = 0; k < 100; k++)
                sum += is_hidden(names[(i + k) % 1000]);
            double start = seconds();
            sum += matches("*a*b*a*a*b*a*c", names[i]);
            matching += seconds() - start;
        }
    return tell(matching, begin, sum);
}
