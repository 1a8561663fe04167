// Each point that comes makes the track of its ship longer by one with realloc, and the tracks are in each other's way.
#include "../own_clock.h"

enum { SHIPS = 300 };
struct point { double x, y; };
static struct track {
    struct point *points;
    long count;
} tracks[SHIPS];

__attribute__((noinline)) static void add_point(struct track *track, struct point point) {
    track->points = realloc(track->points, (size_t)(track->count + 1) * sizeof point); // culprit
    track->points[track->count++] = point;
}

__attribute__((noinline)) static struct point seen_at(uint64_t ship, long when) {
    return (struct point){(double)(scrambled(ship) % 360), (double)when};
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 6000);
    double begin = seconds(), growing = 0, sum = 0;
    for (long i = 0; i < rounds; i++) {
        struct point points[SHIPS];
        for (int ship = 0; ship < SHIPS; ship++)
            points[ship] = seen_at((uint64_t)ship, i);
        double start = seconds();
        for (int ship = 0; ship < SHIPS; ship++)
            add_point(&tracks[ship], points[ship]);
        growing += seconds() - start;
        sum += tracks[i % SHIPS].points[i / 2].x;
    }
    return tell(growing, begin, sum);
}
