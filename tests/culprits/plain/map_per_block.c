// Filters blocks, and maps and unmaps memory for each of them, so that each of its pages faults again.
#include "../own_clock.h"
#include <sys/mman.h>

// Below the size of a huge page, so that no setting of the machine makes it one fault.
enum { BLOCK = 1 << 20, PAGE = 4096 };
static double mapping;

/* Work on what is in the block, that touches one line of each page. */
__attribute__((noinline)) static uint64_t filter_block(const char *block) {
    uint64_t state = 0;
    for (size_t i = 0; i < BLOCK; i += PAGE)
        for (int k = 0; k < 32; k++)
            state = state * 31 + (unsigned char)block[i + (size_t)k];
    return state;
}

__attribute__((noinline)) static char *load_block(uint64_t seed) {
    char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // culprit
    if (block == MAP_FAILED)
        abort();
    for (size_t i = 0; i < BLOCK; i += PAGE)
        block[i] = (char)(seed + i / PAGE); // culprit
    return block;
}

__attribute__((noinline)) static void drop_block(char *block) {
    munmap(block, BLOCK); // culprit
}

int main(int argc, char **argv) {
    long blocks = amount(argc, argv, 8000);
    double begin = seconds(), sum = 0;
    for (long i = 0; i < blocks; i++) {
        double start = seconds();
        char *block = load_block((uint64_t)i);
        mapping += seconds() - start;
        sum += (double)(filter_block(block) % 1000);
        start = seconds();
        drop_block(block);
        mapping += seconds() - start;
    }
    return tell(mapping, begin, sum);
}
