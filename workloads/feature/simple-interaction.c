// Compression and encryption, which meet in one region (after the thesis' SimpleFeatureInteraction): with compression there
// is less to encrypt, and a header to write. Usage: simple-interaction [--compress] [--encrypt] [unit=MILLISECONDS]
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    bool compress;
    bool encrypt;
};

static long unit_ns = 20 * 1000 * 1000;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((noinline)) static void work(int units) {
    for (long end = now() + units * unit_ns; now() < end;)
        ;
}

static void send_package(const struct options *options) {
    work(1);
    if (options->compress) // region 1 {compress}
        work(2);
    if (options->encrypt) { // region 2 {encrypt}
        work(1);
        if (!options->compress) // region 3 {compress}
            work(3);
    }
    work(1);
}

int main(int argc, char **argv) {
    struct options options = {false, false};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--compress") == 0)
            options.compress = true;
        else if (strcmp(argv[i], "--encrypt") == 0)
            options.encrypt = true;
        else if (strncmp(argv[i], "unit=", 5) == 0)
            unit_ns = atol(argv[i] + 5) * 1000000L;
    }
    send_package(&options);
    puts("done");
    return 0;
}
