/* A block allocator over one arena. Released blocks go back to the kernel at once (`eager`) or are kept (`!eager`). */
#ifndef EAGER_ALLOCATOR_H
#define EAGER_ALLOCATOR_H
#include <stddef.h>
void arena_start(int eager, size_t blocks, size_t block_size);
void *block_take(void);
void block_release(void *block);
#endif
