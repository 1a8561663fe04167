/* A function with two variants, of which a resolver chooses. */
static int slow(int n) { return n + 1; }
static int fast(int n) { return n + 2; }
static int (*resolve(void))(int) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? fast : slow;
}
int chosen(int) __attribute__((ifunc("resolve")));
int main(void) { return chosen(0); }
