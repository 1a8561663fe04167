// Opens and closes the log for each line that it writes.
#include "../own_clock.h"
#include <fcntl.h>

static char path[64];
static double logging;

__attribute__((noinline)) static void log_line(const char *text, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); // culprit
    if (file < 0 || write(file, text, size) != (ssize_t)size)               // culprit
        abort();
    close(file); // culprit
}

static uint64_t measure(long number) {
    uint64_t state = (uint64_t)number;
    for (int i = 0; i < 100; i++)
        state = scrambled(state + 1);
    return state;
}

int main(int argc, char **argv) {
    long lines = amount(argc, argv, 600000);
    double begin = seconds(), sum = 0;
    snprintf(path, sizeof path, "/var/tmp/culprit-log-%d", getpid());
    for (long i = 0; i < lines; i++) {
        char text[64];
        uint64_t measured = measure(i) % 1000;
        int size = snprintf(text, sizeof text, "%llu\n", (unsigned long long)measured);
        double start = seconds();
        log_line(text, (size_t)size);
        logging += seconds() - start;
        sum += (double)measured;
    }
    unlink(path);
    return tell(logging, begin, sum);
}
