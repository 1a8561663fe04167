// Weighs the colours of a star catalogue: multimap::count goes through all stars of the colour each time.
#include "../own_clock.h"
#include <map>

struct Star { double brightness; long id; };
static std::multimap<int, Star> by_colour;

static double brightness_of(uint64_t star) { return (double)(scrambled(star) % 1000) / 100; }

__attribute__((noinline)) static long stars_of(int colour) {
    return (long)by_colour.count(colour); // culprit
}

int main(int argc, char **argv) {
    long questions = amount(argc, argv, 20000);
    double begin = seconds(), counting = 0, sum = 0;
    for (long i = 0; i < 60000; i++)
        by_colour.emplace((int)(scrambled((uint64_t)i) % 40), Star{brightness_of((uint64_t)i), i});
    for (long i = 0; i < questions; i++) {
        for (uint64_t k = 0; k < 500; k++)
            sum += brightness_of((uint64_t)i + k);
        double start = seconds();
        sum += (double)stars_of((int)(i % 40));
        counting += seconds() - start;
    }
    return tell(counting, begin, sum);
}
