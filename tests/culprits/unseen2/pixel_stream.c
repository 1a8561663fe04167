// Two threads put their pixels byte by byte into one stream, whose lock each putc takes.
#include "../own_clock.h"
#include <pthread.h>

static FILE *stream;
static long pixels;

__attribute__((noinline)) static int shade_of(uint64_t pixel) { return (int)(scrambled(pixel) & 255); }

__attribute__((noinline)) static void put_pixel(int shade) {
    putc(shade, stream); // culprit
}

static void *painter(void *first) {
    for (long i = 0; i < pixels; i++)
        put_pixel(shade_of((uint64_t)(intptr_t)first + (uint64_t)i));
    return NULL;
}

int main(int argc, char **argv) {
    pixels = amount(argc, argv, 4500000);
    double begin = seconds(), sum = 0;
    stream = fopen("/dev/null", "w");
    pthread_t other;
    pthread_create(&other, NULL, painter, (void *)1000000000);
    painter(NULL);
    pthread_join(other, NULL);
    fclose(stream);
    double start = seconds();
    for (long i = 0; i < pixels / 10; i++)
        sum += shade_of((uint64_t)i);
    double rest = (seconds() - start) * 10;
    return tell(start - begin - rest, begin, sum);
}
