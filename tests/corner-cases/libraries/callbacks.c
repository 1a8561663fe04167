#include "callbacks.h"
#ifdef SECOND
int call_back_other(int (*function)(int), int argument) { return call_back(function, argument) + 1000; }
#else
int plain(int x) { return x * 3 + 1; }
int call_back(int (*function)(int), int argument) { return function(argument) + 1; }
__attribute__((noinline)) static int deeper(int (*function)(int), int argument, int depth) {
    volatile char pad[64];
    pad[depth & 63] = (char)depth;
    int r = depth ? deeper(function, argument, depth - 1) : call_back(function, argument);
    return r + (pad[depth & 63] == (char)depth);
}
int call_back_deep(int (*function)(int), int argument, int depth) { return deeper(function, argument, depth); }
#endif
