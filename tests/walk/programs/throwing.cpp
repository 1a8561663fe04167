// C++ in the hot path: throwing SECONDS exceptions|templates|strings.
#include "../../../workloads/walk/truth.h"
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#define OWN __attribute__((noinline))
static int t_one;
static uint64_t sink;

namespace checks {
OWN static void validate(unsigned i) {
    if (i != 0xffffffff)
        throw std::runtime_error("invalid");
}
OWN static void attempt(unsigned i) {
    try {
        validate(i);
    } catch (const std::exception &) {
        sink++;
    }
}
} // namespace checks

template <typename T, unsigned Rounds>
struct Kernel {
    OWN static T apply(T x) { return (T)truth_mixed((uint64_t)x, Rounds); }
};
OWN static void templates(unsigned i) {
    TRUTH_TIMED(t_one, sink += (Kernel<uint64_t, 20000>::apply(i)));
    sink += (uint64_t)(Kernel<uint32_t, 3000>::apply(i));
}

OWN static void strings(unsigned i) {
    static std::map<std::string, unsigned> words;
    if (words.empty())
        for (unsigned n = 0; n < 20000; n++)
            words["a rather long word that begins like all others " + std::to_string(n)] = n;
    for (unsigned n = 0; n < 100; n++)
        sink += words.find("a rather long word that begins like all others " + std::to_string((i * 100 + n) * 7919 % 20000))->second;
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    std::string mode = argc > 2 ? argv[2] : "exceptions";
    t_one = truth_function(mode == "exceptions" ? "checks::attempt" : mode == "templates" ? "Kernel::apply" : "strings");
    for (unsigned i = 0; truth_running(); i++, truth.operations++) {
        if (mode == "exceptions")
            TRUTH_TIMED(t_one, checks::attempt(i));
        else if (mode == "templates")
            templates(i);
        else
            TRUTH_TIMED(t_one, strings(i));
    }
    truth_print();
}
