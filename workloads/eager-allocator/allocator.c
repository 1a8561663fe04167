#define _GNU_SOURCE
#include "allocator.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
static char *arena;
static void **free_blocks;
static size_t free_count, size;
static int give_back;

void arena_start(int eager, size_t blocks, size_t block_size) {
    give_back = eager;
    size = block_size;
    arena = mmap(0, blocks * block_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free_blocks = malloc(blocks * sizeof *free_blocks);
    if (arena == MAP_FAILED || !free_blocks) abort();
    for (size_t i = 0; i < blocks; i++) free_blocks[free_count++] = arena + i * block_size;
}
void *block_take(void) {
    if (!free_count) abort();
    return free_blocks[--free_count];
}
void block_release(void *block) {
    if (give_back && madvise(block, size, MADV_DONTNEED)) perror("madvise");
    free_blocks[free_count++] = block;
}
