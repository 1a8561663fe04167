#include "stages.h"
static unsigned long mix(unsigned long x, int rounds) {
    for (int i = 0; i < rounds; i++) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9UL + 1;
    return x;
}
unsigned long stage_read(unsigned long item) { return mix(item, 2000); }
unsigned long stage_transform(unsigned long item) { return mix(item, 120000); }
unsigned long stage_check(unsigned long item) { return mix(item, 4000); }
unsigned long stage_store(unsigned long item) { return mix(item, 1000); }
