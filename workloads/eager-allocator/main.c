/* A server's life in small: takes a few blocks, uses them, releases them. The allocator hands each released block back
 * to the kernel (madvise), and the next use faults it in again. Fix: keep released blocks.
 *
 * usage: eager-allocator [--fixed] [thousands of blocks, default 30]
 */
#include "allocator.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int fixed = 0;
    long rounds = 30 * 1000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--fixed")) fixed = 1;
        else rounds = atol(argv[i]) * 1000;
    }
    const size_t size = 128 << 10;
    arena_start(!fixed, 64, size);
    unsigned long sum = 0;
    for (long i = 0; i < rounds; i += 8) {
        char *blocks[8];
        for (int k = 0; k < 8; k++) {
            blocks[k] = block_take();
            for (size_t at = 0; at < size; at += 4096) blocks[k][at] = (char)(i + k);
        }
        for (int k = 0; k < 8; k++) {
            sum += (unsigned char)blocks[k][4096];
            block_release(blocks[k]);
        }
    }
    printf("%ld blocks, sum %lu\n", rounds, sum);
    printf("calls: eager-allocator libeager.so block_take %ld\n", rounds);
    printf("calls: eager-allocator libeager.so block_release %ld\n", rounds);
    if (!fixed) printf("calls: libeager.so libc.so.6 madvise %ld\n", rounds);
    return 0;
}
