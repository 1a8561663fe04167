#include <stdint.h>
static __thread long last;
long counted_step(long x) { last += x; return x * 3 + 1; }
long counted_first(long x) { return x + 7; }
long counted_late(long x) { return x + 9; }
