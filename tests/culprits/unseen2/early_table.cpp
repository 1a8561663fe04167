// A table of all distances is worked out by the constructor of a static object, before main begins.
#include "../own_clock.h"
#include <vector>

static double begin = seconds(), filling;
enum { PLACES = 1150 };

class Distances {
    std::vector<int> far;

public:
    Distances() : far(PLACES * PLACES) {
        for (size_t i = 0; i < far.size(); i++)
            far[i] = (int)(scrambled(i) % 10000 + 1);
        double start = seconds();
        fill();
        filling = seconds() - start;
    }
    __attribute__((noinline)) void fill() {
        for (int over = 0; over < PLACES; over++)
            for (int from = 0; from < PLACES; from++)
                for (int to = 0; to < PLACES; to++) {
                    int sum = far[from * PLACES + over] + far[over * PLACES + to]; // culprit
                    if (sum < far[from * PLACES + to]) // culprit
                        far[from * PLACES + to] = sum; // culprit
                }
    }
    int between(int from, int to) const { return far[from * PLACES + to]; }
};
static Distances distances;

__attribute__((noinline)) static long trip_length(uint64_t trip) {
    long length = 0;
    for (int stop = 0; stop < 20; stop++)
        length += distances.between((int)(scrambled(trip + (uint64_t)stop) % PLACES), (int)(scrambled(trip * 3 + (uint64_t)stop) % PLACES));
    return length;
}

int main(int argc, char **argv) {
    long trips = amount(argc, argv, 400000);
    double sum = 0;
    for (long i = 0; i < trips; i++)
        sum += (double)trip_length((uint64_t)i);
    return tell(filling, begin, sum);
}
