// Looks up prices in a large map, whose nodes lie all over the memory.
#include "../own_clock.h"
#include <map>
#include <string>

using Prices = std::map<std::string, double>;
enum { ARTICLES = 200000 };

static std::string article(uint64_t number) {
    char name[40];
    snprintf(name, sizeof name, "article/%016llx", (unsigned long long)scrambled(number));
    return name;
}

static Prices make_prices() {
    Prices prices;
    for (uint64_t i = 0; i < ARTICLES; i++)
        prices[article(i)] = double(i % 1000) / 10;
    return prices;
}

__attribute__((noinline)) static double price_of(const Prices &prices, const std::string &name) {
    auto found = prices.find(name); // culprit
    return found == prices.end() ? 0 : found->second;
}

int main(int argc, char **argv) {
    long lookups = amount(argc, argv, 1400000);
    double begin = seconds(), looking = 0, sum = 0;
    Prices prices = make_prices();
    for (long i = 0; i < lookups; i++) {
        std::string name = article(scrambled(uint64_t(i) + 7) % ARTICLES);
        double start = seconds();
        sum += price_of(prices, name);
        looking += seconds() - start;
    }
    return tell(looking, begin, sum);
}
