/* What life.c opens and closes. */
int plugin_constructed;
__attribute__((constructor)) static void construct(void) { plugin_constructed = 42; }
__attribute__((noinline)) long plugin_one(long x) { __asm__ volatile("" ::: "memory"); return x + 1; }
__attribute__((noinline)) long plugin_two(long x) { return plugin_one(x) * 2; }
