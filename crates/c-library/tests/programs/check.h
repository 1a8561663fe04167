/* What the test programs share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <transect.h>
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, transect_last_error()); \
            exit(1); \
        } \
    } while (0)
#define BEGIN() CHECK(transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL) == 0)
#define BARRIER() __asm__ volatile("" ::: "memory")
