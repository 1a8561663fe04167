// Loads a filter as a plugin and sends pictures through it.
#include "../own_clock.h"
#include <dlfcn.h>

enum { SIDE = 512 };
typedef void Filter(const unsigned char *from, unsigned char *to, int side);
static unsigned char picture[SIDE * SIDE], filtered[SIDE * SIDE];

static void load_picture(uint64_t seed) {
    for (size_t i = 0; i < sizeof picture; i += 8) {
        uint64_t random = scrambled(seed + i);
        memcpy(picture + i, &random, 8);
    }
}

static uint64_t save_picture(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof filtered; i += 8)
        sum = sum * 31 + filtered[i];
    return sum;
}

static Filter *load_filter(void) {
    void *library = dlopen("libplugin_filter.so", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    Filter *filter;
    *(void **)&filter = dlsym(library, "sharpen");
    return filter;
}

int main(int argc, char **argv) {
    long pictures = amount(argc, argv, 900);
    double begin = seconds(), filtering = 0, sum = 0;
    Filter *filter = load_filter();
    for (long i = 0; i < pictures; i++) {
        load_picture((uint64_t)i);
        double start = seconds();
        filter(picture, filtered, SIDE);
        filtering += seconds() - start;
        sum += (double)(save_picture() % 1000);
    }
    return tell(filtering, begin, sum);
}
