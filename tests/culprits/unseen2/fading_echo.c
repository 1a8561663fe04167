// An echo fades until its numbers are denormal, with which the CPU is many times slower.
#include "../own_clock.h"
#include <xmmintrin.h>

enum { SAMPLES = 4096 };
static float line[SAMPLES];

__attribute__((noinline)) static float fade_echo(float *samples) {
    float sum = 0, kept = 0;
    for (int i = 0; i < SAMPLES; i++) {
        kept = kept * 0.5f + samples[i] * 0.5f; // culprit
        samples[i] = kept > 1e-39f ? kept : 1e-39f; // culprit
        sum += samples[i];
    }
    return sum;
}

__attribute__((noinline)) static float level_of(uint64_t block) {
    float most = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        float level = (float)(scrambled(block + i) & 1023) / 1024;
        most = level > most ? level : most;
    }
    return most;
}

int main(int argc, char **argv) {
    long blocks = amount(argc, argv, 4500);
    double begin = seconds(), fading = 0, sum = 0;
    line[0] = 1;
    for (long i = 0; i < blocks; i++) {
        sum += level_of((uint64_t)i);
        double start = seconds();
        sum += fade_echo(line);
        fading += seconds() - start;
    }
    // The same with denormals off, by a tenth of the blocks.
    double end = seconds();
    _mm_setcsr(_mm_getcsr() | 0x8040);
    for (long i = 0; i < blocks / 10; i++)
        sum += fade_echo(line);
    fprintf(stderr, "fading %.3f s, without denormals %.3f s\n", fading, (seconds() - end) * 10);
    return tell(fading, begin, sum);
}
