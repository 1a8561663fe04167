// Heat spreads over a plate. One loop over its points takes the time.
#include "../own_clock.h"

enum { SIDE = 256 };
typedef float Plate[SIDE][SIDE];
static Plate plates[2];

static void heat_edge(Plate plate, int step) {
    for (int x = 0; x < SIDE; x++)
        plate[0][x] = (float)((step + x) % 100);
}

__attribute__((noinline)) static void relax(Plate from, Plate to) {
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++)
            to[y][x] = 0.25f * (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]); // culprit
}

__attribute__((noinline)) static float hottest(Plate plate) {
    float most = 0;
    for (int y = 1; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            if (plate[y][x] > most)
                most = plate[y][x];
    return most;
}

int main(int argc, char **argv) {
    long steps = amount(argc, argv, 50000);
    double begin = seconds(), relaxing = 0, sum = 0;
    for (long step = 0; step < steps; step++) {
        float(*from)[SIDE] = plates[step % 2], (*to)[SIDE] = plates[(step + 1) % 2];
        heat_edge(from, (int)step);
        double start = seconds();
        relax(from, to);
        relaxing += seconds() - start;
        if (step % 10 == 0)
            sum += hottest(to);
    }
    return tell(relaxing, begin, sum);
}
