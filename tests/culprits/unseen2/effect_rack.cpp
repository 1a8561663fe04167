// Sends sound through effects that come from a plug-in. One of them is slow; the host only knows their base class.
#include "../own_clock.h"
#include <dlfcn.h>
#include <vector>

struct Effect {
    virtual ~Effect() = default;
    virtual void process(float *samples, int count) = 0;
};
struct Gain : Effect {
    void process(float *samples, int count) override {
        for (int i = 0; i < count; i++)
            samples[i] *= 0.9f;
    }
};

static Effect *loaded(void *library, const char *maker) {
    Effect *(*make)();
    *(void **)&make = dlsym(library, maker);
    return make();
}

int main(int argc, char **argv) {
    long blocks = amount(argc, argv, 2500);
    double begin = seconds(), slow = 0, sum = 0;
    void *library = dlopen("libeffect_plugin.so", RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    std::vector<Effect *> rack = {new Gain, loaded(library, "make_limiter"), loaded(library, "make_reverb"), new Gain};
    float samples[1024];
    for (long block = 0; block < blocks; block++) {
        for (int i = 0; i < 1024; i++)
            samples[i] = (float)(scrambled((uint64_t)(block * 1024 + i)) % 2000) / 1000 - 1;
        for (size_t i = 0; i < rack.size(); i++) {
            double start = seconds();
            rack[i]->process(samples, 1024);
            if (i == 2)
                slow += seconds() - start;
        }
        sum += samples[7];
    }
    return tell(slow, begin, sum);
}
