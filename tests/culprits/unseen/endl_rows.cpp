// Writes a table, and endl writes out each row by itself.
#include "hclock.h"
#include <fstream>
__attribute__((noinline)) static void write_row(std::ofstream &out, long i, double v) {
    IN;
    out << i << ' ' << v << std::endl; // HERE
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 1500000; char path[] = "/var/tmp/rows-XXXXXX"; close(mkstemp(path));
    std::ofstream out(path);
    for (long i = 0; i < n; i++) write_row(out, i, (double)(mixed(i) % 1000));
    unlink(path); CLOCK_SAY;
}
