// A function that is picked when the program starts (IFUNC) mixes sound; the slow one is picked.
#include "../own_clock.h"

enum { SAMPLES = 8192 };
static int16_t left[SAMPLES], right[SAMPLES], both[SAMPLES];

__attribute__((noinline)) static void mix_plain(int16_t *to, const int16_t *a, const int16_t *b) {
    for (int i = 0; i < SAMPLES; i++) {
        int sum = a[i] + b[i];
        for (int level = 32767; sum > level || sum < -level; level = 32767)
            sum -= sum > 0 ? 256 : -256; // culprit
        to[i] = (int16_t)sum;
    }
}

static void mix_fast(int16_t *to, const int16_t *a, const int16_t *b) {
    for (int i = 0; i < SAMPLES; i++) {
        int sum = a[i] + b[i];
        to[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32767 ? -32767 : sum);
    }
}

typedef void Mixer(int16_t *, const int16_t *, const int16_t *);
static Mixer *pick_mixer(void) {
    __builtin_cpu_init();
    // It asks for a CPU that hardly anybody has.
    return __builtin_cpu_supports("avx5124fmaps") ? mix_fast : mix_plain;
}
void mix_tracks(int16_t *to, const int16_t *a, const int16_t *b) __attribute__((ifunc("pick_mixer")));

__attribute__((noinline)) static void load_tracks(uint64_t block) {
    for (int i = 0; i < SAMPLES; i += 4) {
        uint64_t random = scrambled(block + (uint64_t)i);
        memcpy(left + i, &random, 8);
        random ^= random << 13;
        memcpy(right + i, &random, 8);
    }
}

int main(int argc, char **argv) {
    long blocks = amount(argc, argv, 13000);
    double begin = seconds(), mixing = 0, sum = 0;
    for (long i = 0; i < blocks; i++) {
        load_tracks((uint64_t)i * SAMPLES);
        double start = seconds();
        mix_tracks(both, left, right);
        mixing += seconds() - start;
        sum += both[i % SAMPLES];
    }
    return tell(mixing, begin, sum);
}
