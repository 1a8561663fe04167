long called_often(long x) { return x + 1; }
long called_rarely(long x) {
    volatile long sum = 0;
    for (int i = 0; i < 3000; i++) sum += x;
    return sum;
}
