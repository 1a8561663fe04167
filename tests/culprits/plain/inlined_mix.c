// Encrypts a message. The function that takes the time is inlined and has no address of its own.
#include "../own_clock.h"

enum { SIZE = 4096 };
static uint32_t message[SIZE / 4];

static inline __attribute__((always_inline)) uint32_t key_at(uint32_t key, int round) { return key * 2654435761u + (uint32_t)round; }

static inline __attribute__((always_inline)) void mix_block(uint32_t *block, uint32_t key) {
    uint32_t left = block[0], right = block[1];
    for (int round = 0; round < 32; round++) {
        left += ((right << 4) + key) ^ (right + (uint32_t)round) ^ ((right >> 5) + key * 3);  // culprit
        right += ((left << 4) + key) ^ (left + (uint32_t)round) ^ ((left >> 5) + key * 5);    // culprit
    }
    block[0] = left;
    block[1] = right;
}

__attribute__((noinline)) static void encrypt(uint32_t key) {
    for (int i = 0; i < SIZE / 4; i += 2)
        mix_block(&message[i], key_at(key, i));
}

static void load_message(uint64_t seed) {
    for (int i = 0; i < SIZE / 4; i++)
        message[i] = (uint32_t)scrambled(seed + (uint64_t)i);
}

int main(int argc, char **argv) {
    long messages = amount(argc, argv, 36000);
    double begin = seconds(), encrypting = 0, sum = 0;
    for (long i = 0; i < messages; i++) {
        load_message((uint64_t)i);
        double start = seconds();
        encrypt((uint32_t)i);
        encrypting += seconds() - start;
        sum += message[i % (SIZE / 4)] % 1000;
    }
    return tell(encrypting, begin, sum);
}
