// C++: a member of a class, a virtual call that a feature chose, a template.
#include "truth.h"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

long entered[16];

class Settings {
  public:
    bool verbose = false;
    int level = 0;
};

struct Codec {
    virtual ~Codec() = default;
    virtual long run(long value) = 0;
};
struct Slow : Codec {
    long run(long value) override { usleep(0); return value * 3; }
};
struct Quick : Codec {
    long run(long value) override { return value + 1; }
};

template <typename Number> __attribute__((noinline)) static Number scaled(const Settings &settings, Number value) {
    if (settings.level > 3) { // region 1 {level}
        ENTERED(1);
        usleep(0);
        return value * 2;
    }
    return value;
}

__attribute__((noinline)) static void report(const Settings &settings, long value) {
    if (settings.verbose) { // region 2 {verbose}
        ENTERED(2);
        std::fprintf(stderr, "%ld\n", value);
    }
}

int main(int argc, char **argv) {
    Settings settings;
    settings.verbose = argc > 1 && std::atoi(argv[1]);
    settings.level = argc > 2 ? std::atoi(argv[2]) : 0;
    std::unique_ptr<Codec> codec;
    if (settings.level > 5) { // region 3 {level}
        ENTERED(3);
        codec = std::make_unique<Slow>();
    } else {
        ENTERED(3);
        codec = std::make_unique<Quick>();
    }
    long sum = 0;
    for (int i = 0; i < 25; i++) {
        sum += codec->run(scaled<long>(settings, i));
        sum += long(scaled<double>(settings, i));
        report(settings, sum);
    }
    std::printf("sum %ld\n", sum);
    say_truth();
    return 0;
}
