/* Sibling calls through linkage: each function's last act is `jmp next@plt`. LINK numbers this library of the chain. */
#define PASTE(a, b) a##b
#define NAME(a, b) PASTE(a, b)
#ifndef LAST
long NAME(link, NEXT)(long x, long y);
long NAME(link, LINK)(long x, long y) { return NAME(link, NEXT)(x * 3 + LINK, y + 1); }
void NAME(run, NEXT)(void (*function)(long), long x);
void NAME(run, LINK)(void (*function)(long), long x) { NAME(run, NEXT)(function, x + 1); }
#else
long NAME(link, LINK)(long x, long y) { return x * 7 + y; }
void NAME(run, LINK)(void (*function)(long), long x) { function(x); }
#endif
