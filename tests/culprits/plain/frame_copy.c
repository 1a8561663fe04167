// Draws a little into each frame of a film, and copies the whole frame to whoever shows it.
#include "../own_clock.h"

enum { FRAME = 24 << 20 };

static void draw_cursor(unsigned char *frame, long number) {
    size_t at = (size_t)scrambled((uint64_t)number) % (FRAME - 4096);
    for (size_t i = 0; i < 4096; i++)
        frame[at + i] ^= (unsigned char)number;
}

__attribute__((noinline)) static void publish_frame(unsigned char *shown, const unsigned char *frame) {
    memcpy(shown, frame, FRAME); // culprit
}

/* What a viewer would look at: one point of a line in 64. */
__attribute__((noinline)) static uint64_t look_at(const unsigned char *shown) {
    uint64_t seen = 0;
    for (size_t i = 0; i < FRAME; i += 4096)
        seen = seen * 31 + shown[i];
    return seen;
}

int main(int argc, char **argv) {
    long frames = amount(argc, argv, 500);
    double begin = seconds(), copying = 0, sum = 0;
    unsigned char *frame = malloc(FRAME), *shown = malloc(FRAME);
    memset(frame, 1, FRAME);
    memset(shown, 0, FRAME);
    for (long i = 0; i < frames; i++) {
        draw_cursor(frame, i);
        double start = seconds();
        publish_frame(shown, frame);
        copying += seconds() - start;
        sum += (double)(look_at(shown) % 1000);
    }
    free(frame);
    free(shown);
    return tell(copying, begin, sum);
}
