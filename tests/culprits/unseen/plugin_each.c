// Loads the library of the filter anew for each image.
#include "hclock.h"
#include <dlfcn.h>
__attribute__((noinline)) static unsigned long apply_filter(const unsigned char *image, unsigned n) {
    IN;
    void *lib = dlopen("libz.so.1", RTLD_NOW); // HERE
    if (!lib) abort();
    unsigned long (*f)(unsigned long, const unsigned char *, unsigned) = (unsigned long (*)(unsigned long, const unsigned char *, unsigned))dlsym(lib, "adler32"); // HERE
    unsigned long r = f(1, image, n);
    dlclose(lib); // HERE
    OUT;
    return r;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long images = argc > 1 ? atol(argv[1]) : 25000; unsigned long sum = 0; static unsigned char image[4096];
    for (long i = 0; i < images; i++) { for (int k = 0; k < 4096; k++) image[k] = (unsigned char)mixed(i + k); sum += apply_filter(image, 4096); }
    printf("%lu\n", sum); CLOCK_SAY;
}
