// An exception leaves `middle` every other time and is caught in `work`; calls are noted as timed.c notes them.
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

struct call { volatile uint64_t which, begin, end, pad; };
constexpr unsigned calls = 65535;
struct line { volatile uint64_t count, pad[3]; call ring[calls]; };
static line *l;
static volatile unsigned sink;

extern "C" {
__attribute__((noinline)) void spin(unsigned rounds) { for (unsigned i = 0; i < rounds; i++) sink = sink + i; }
__attribute__((noinline)) void first(unsigned n) {
    spin(20000);
    if (n & 1) throw n;
    asm volatile("");
}
__attribute__((noinline)) void middle(unsigned n) { first(n); spin(5000); asm volatile(""); }
__attribute__((noinline)) void work(unsigned n) {
    try {
        middle(n);
    } catch (unsigned caught) {
        if (caught != n) abort();
        spin(5000);
    }
    asm volatile("");
}
}

int main(int, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(line) * 8)) return 3;
    l = static_cast<line *>(mmap(nullptr, sizeof(line) * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0));
    for (unsigned n = 0;; n++) {
        uint64_t number = l->count;
        l->count = number + 1;
        call &c = l->ring[number % calls];
        c.begin = ~uint64_t(0);
        c.end = 0;
        c.which = 0;
        c.begin = __rdtsc();
        work(n);
        c.end = __rdtsc();
    }
}
