// Checks parcels with a function of a library that is linked statically.
#include "../own_clock.h"

enum { SIZE = 16384 };
uint32_t crc_of(const unsigned char *bytes, size_t size);
static unsigned char parcel[SIZE];

static void fill_parcel(uint64_t seed) {
    for (size_t i = 0; i < SIZE; i += 8) {
        uint64_t random = scrambled(seed + i);
        memcpy(parcel + i, &random, 8);
    }
}

static int is_damaged(uint32_t crc) { return crc % 97 == 0; }

int main(int argc, char **argv) {
    long parcels = amount(argc, argv, 8000), damaged = 0;
    double begin = seconds(), checking = 0, sum = 0;
    for (long i = 0; i < parcels; i++) {
        fill_parcel((uint64_t)i);
        double start = seconds();
        uint32_t crc = crc_of(parcel, SIZE);
        checking += seconds() - start;
        damaged += is_damaged(crc);
        sum += (double)(crc % 1000);
    }
    return tell(checking, begin, sum + (double)damaged);
}
