// Counts visits in a hash table whose hash is the length of the name, and all names are equally long.
#include "../own_clock.h"
#include <string>
#include <unordered_map>
#include <vector>

static std::vector<std::string> make_names(size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "user-%08x@example.org", unsigned(scrambled(i)));
        names.push_back(name);
    }
    return names;
}

struct NameHash {
    size_t operator()(const std::string &name) const { return name.size(); } // culprit
};
using Visits = std::unordered_map<std::string, long, NameHash>;

__attribute__((noinline)) static void count_visit(Visits &visits, const std::string &name) {
    visits[name]++; // culprit
}

static long most_visits(const Visits &visits) {
    long most = 0;
    for (const auto &[name, count] : visits)
        most = std::max(most, count);
    return most;
}

int main(int argc, char **argv) {
    long count = amount(argc, argv, 250000);
    double begin = seconds(), counting = 0;
    auto names = make_names(1500);
    Visits visits;
    for (long i = 0; i < count; i++) {
        const std::string &name = names[scrambled(uint64_t(i) + 99) % names.size()];
        double start = seconds();
        count_visit(visits, name);
        counting += seconds() - start;
    }
    return tell(counting, begin, double(most_visits(visits)));
}
