/* A pointer comparison in a switch-like table, as curl and openssl do it: identity of library functions matters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
typedef struct { void *(*allocate)(size_t); void (*release)(void *); } Allocator;
static Allocator active = {malloc, free};
int main(void) {
    for (int i = 0; i < 1000; i++) {
        void *p = active.allocate(10);
        active.release(p);
        free(malloc(20));
    }
    if (active.allocate == malloc && active.release == free) puts("default allocator");
    else puts("replaced allocator?");
    unsigned char source[1000], packed[2000], back[1000];
    for (int i = 0; i < 1000; i++) source[i] = (unsigned char)(i % 7);
    uLongf size = sizeof packed, back_size = sizeof back;
    printf("%d ", compress(packed, &size, source, sizeof source));
    printf("%d ", uncompress(back, &back_size, packed, size));
    printf("%lu %d\n", size, memcmp(source, back, 1000));
    return 0;
}
