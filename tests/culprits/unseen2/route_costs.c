// Adds up the costs of routes. Their cost is worked out in another file, which is inlined when all is linked (-flto).
#include "../own_clock.h"

double hill_cost(double height, double length);

static inline double height_of(uint64_t place) { return (double)(scrambled(place) % 1000) / 10; }

__attribute__((noinline)) static double cost_of_route(uint64_t route) {
    double cost = 0;
    for (uint64_t stop = 0; stop < 100; stop++)
        cost += hill_cost(height_of(route + stop), 10 + (double)(stop & 7));
    return cost;
}

__attribute__((noinline)) static int is_closed(uint64_t route) { return scrambled(route) % 100 == 7; }

int main(int argc, char **argv) {
    long routes = amount(argc, argv, 12000);
    double begin = seconds(), costing = 0, sum = 0;
    for (long i = 0; i < routes; i++) {
        if (is_closed((uint64_t)i))
            continue;
        double start = seconds();
        sum += cost_of_route((uint64_t)i);
        costing += seconds() - start;
    }
    return tell(costing, begin, sum);
}
