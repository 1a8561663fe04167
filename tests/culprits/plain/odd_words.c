// Counts words with an odd number of bits, by a function in assembler.
#include "../own_clock.h"

enum { WORDS = 8192 };
uint64_t odd_bits(const uint64_t *words, size_t count);
static uint64_t words[WORDS];

static void receive_words(uint64_t seed) {
    for (size_t i = 0; i < WORDS; i++)
        words[i] = scrambled(seed * WORDS + i);
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 4500);
    double begin = seconds(), counting = 0, sum = 0;
    for (long i = 0; i < rounds; i++) {
        receive_words((uint64_t)i);
        double start = seconds();
        sum += (double)odd_bits(words, WORDS);
        counting += seconds() - start;
    }
    return tell(counting, begin, sum);
}
