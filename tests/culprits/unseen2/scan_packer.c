// Packs scanned pages with a library of which only the names remain that others may call.
#include "../own_clock.h"

long pack_page(const unsigned char *page, long size, unsigned char *packed);
enum { SIZE = 16384 };
static unsigned char page[SIZE], packed[2 * SIZE];

__attribute__((noinline)) static void scan_page(uint64_t number) {
    for (int i = 0; i < SIZE; i++)
        page[i] = (unsigned char)(scrambled(number + (uint64_t)i) & 7);
}

__attribute__((noinline)) static long store_page(double *packing) {
    double start = seconds();
    long size = pack_page(page, SIZE, packed); // culprit
    *packing += seconds() - start;
    return size;
}

int main(int argc, char **argv) {
    long pages = amount(argc, argv, 30);
    double begin = seconds(), packing = 0, sum = 0;
    for (long i = 0; i < pages; i++) {
        scan_page((uint64_t)i);
        sum += (double)store_page(&packing);
    }
    return tell(packing, begin, sum);
}
