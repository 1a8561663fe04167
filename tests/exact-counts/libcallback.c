// An API that calls a function back for each of n elements, and one that such functions call.
static volatile long sum;
static void work(long n) {
    for (long i = 0; i < n; i++) sum += i;
}
long leaf(long n) {
    work(n);
    return n;
}
long for_each(long n, long (*visit)(long)) {
    long all = 0;
    for (long i = 0; i < n; i++) {
        work(2000);
        all += visit(i);
    }
    return all;
}
