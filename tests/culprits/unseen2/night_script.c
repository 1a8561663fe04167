// A shell script starts this three times: to list, to render and to publish. Rendering is slow.
#include "../own_clock.h"

static uint64_t worked(uint64_t state, long rounds) {
    for (long i = 0; i < rounds; i++)
        state = scrambled(state + (uint64_t)i);
    return state;
}

__attribute__((noinline)) static uint64_t render_leaf(uint64_t leaf) {
    uint64_t light = leaf;
    for (long ray = 0; ray < 500000; ray++)
        light = scrambled(light ^ (uint64_t)ray); // culprit
    return light;
}

// The parts follow each other in processes of their own, so that the time of the first is kept in a file.
int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    long leaves = argc > 2 ? atol(argv[2]) : 800;
    double times[2] = {seconds(), 0};
    uint64_t result = worked(1, 20000000);
    if (strcmp(part, "render") == 0) {
        double start = seconds();
        for (long i = 0; i < leaves; i++)
            result += render_leaf((uint64_t)i);
        times[1] = seconds() - start;
    }
    FILE *file = fopen("night.times", strcmp(part, "list") == 0 ? "w" : "r+");
    double kept[2];
    if (!file)
        return 1;
    if (fread(kept, sizeof kept, 1, file) == 1)
        times[0] = kept[0], times[1] += kept[1];
    rewind(file);
    fwrite(times, sizeof times, 1, file);
    fclose(file);
    return strcmp(part, "publish") == 0 ? tell(times[1], times[0], (double)(result % 1000)) : 0;
}
