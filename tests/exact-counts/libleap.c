/* Two functions of two objects that jump on to each other: built twice, THIS and OTHER name them. */
long OTHER(long left, long steps);
long THIS(long left, long steps) {
    long x = left;
    for (long i = 0; i < steps; i++) {
        __asm__ volatile("" : "+r"(x));
        x = x * 3 + 1;
    }
    return left ? OTHER(left - 1, steps) : x;
}
