// Weighs the parts of a list whose nodes lie all over the memory, so that each step waits for it.
#include "../own_clock.h"

enum { NODES = 1 << 19 };

struct part {
    struct part *next;
    uint32_t weight;
    char label[116];
};

/* One circle through all nodes in random order. */
static struct part *scattered_list(void) {
    struct part *parts = malloc(NODES * sizeof *parts);
    uint32_t *order = malloc(NODES * sizeof *order);
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        uint32_t other = (uint32_t)(scrambled(i) % i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        struct part *part = &parts[order[i]];
        part->next = &parts[order[(i + 1) % NODES]];
        part->weight = order[i] % 1000;
        snprintf(part->label, sizeof part->label, "part-%u", i);
    }
    free(order);
    return parts;
}

__attribute__((noinline)) static uint64_t total_weight(const struct part *first) {
    uint64_t sum = 0;
    const struct part *part = first;
    do {
        sum += part->weight; // culprit
        part = part->next;   // culprit
    } while (part != first);
    return sum;
}

int main(int argc, char **argv) {
    long passes = amount(argc, argv, 25);
    double begin = seconds(), weighing = 0, sum = 0;
    struct part *parts = scattered_list();
    for (long i = 0; i < passes; i++) {
        double start = seconds();
        sum += (double)total_weight(parts);
        weighing += seconds() - start;
    }
    free(parts);
    return tell(weighing, begin, sum);
}
