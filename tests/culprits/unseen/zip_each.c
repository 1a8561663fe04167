// Compresses each note of 60 bytes by itself, and sets the compressor up anew for it.
#include "hclock.h"
#include <zlib.h>
__attribute__((noinline)) static unsigned long pack_note(const char *note, size_t n) {
    unsigned char out[512]; unsigned long len = sizeof out;
    IN;
    if (compress2(out, &len, (const unsigned char *)note, n, 6) != Z_OK) abort(); // HERE
    OUT;
    return len;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long notes = argc > 1 ? atol(argv[1]) : 40000; unsigned long sum = 0; char note[80];
    for (long i = 0; i < notes; i++) { uint64_t x = i; for (int k = 0; k < 60; k++) { x = mixed(x + k); note[k] = (char)('a' + x % 20); } sum += pack_note(note, 60); }
    printf("%lu\n", sum); CLOCK_SAY;
}
