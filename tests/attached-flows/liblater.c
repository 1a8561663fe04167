long counted_step(long x);
long later(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += counted_step(i);
    return sum;
}
