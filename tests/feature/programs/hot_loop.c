// A region that is entered every few nanoseconds, and one that is entered now and then. At the end it looks how many bytes of the
// first one's function are not those of its file.
#include "truth.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <time.h>

enum { LENGTH = 48 };

long entered[16];
static int often, seldom, inner;
static volatile long sum;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static __attribute__((noinline)) void work(int rounds) {
    for (int i = 0; i < rounds; i++)
        sum += i;
}

// Four fifths of it are in the region.
__attribute__((noinline)) void step(int i) {
    work(15);
    if (often) { // region 1 {often}
        ENTERED(1);
        work(60);
    }
    (void)i;
}

// A region in a loop that the compiler sees has no sites.
static __attribute__((noinline)) void spin(long rounds) {
    for (long i = 0; i < rounds; i++)
        if (inner) { // region 3 {inner}
            sum += i;
            sum ^= i;
            sum -= i;
        }
}

// That there is a loop around it is not to be seen.
static void (*volatile call)(int) = step;

static __attribute__((noinline)) void loop(int rounds) {
    for (int i = 0; i < rounds; i++)
        call(i);
}

static int find_bias(struct dl_phdr_info *info, size_t size, void *bias) {
    (void)size;
    *(ElfW(Addr) *)bias = info->dlpi_addr;
    return 1;
}

// The text of this program lies in its file where the address without the bias is, less its segment's distance.
static int changed(void) {
    unsigned char file[LENGTH], *text = (unsigned char *)step;
    ElfW(Addr) bias = 0;
    dl_iterate_phdr(find_bias, &bias);
    ElfW(Ehdr) header;
    int self = open("/proc/self/exe", O_RDONLY), differ = 0;
    if (pread(self, &header, sizeof(header), 0) != sizeof(header))
        return -1;
    for (int i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;
        ElfW(Addr) address = (ElfW(Addr))text - bias;
        if (pread(self, &segment, sizeof(segment), header.e_phoff + i * header.e_phentsize) != sizeof(segment))
            return -1;
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr || address >= segment.p_vaddr + segment.p_filesz)
            continue;
        if (pread(self, file, LENGTH, segment.p_offset + address - segment.p_vaddr) != LENGTH)
            return -1;
        for (int k = 0; k < LENGTH; k++)
            differ += file[k] != text[k];
    }
    close(self);
    return differ;
}

int main(int argc, char **argv) {
    often = argc > 1 && atoi(argv[1]);
    seldom = argc > 2 && atoi(argv[2]);
    inner = argc > 3 && atoi(argv[3]);
    double begin = now(), end = begin + 1.5;
    while (now() < end) {
        loop(4000);
        if (seldom) { // region 2 {seldom}
            ENTERED(2);
            sum += 1;
        }
    }
    printf("often %.0f\n", 0.8e9 * (now() - begin));
    begin = now();
    while (now() < begin + 0.5)
        spin(100000);
    printf("inner %.0f\n", 1e9 * (now() - begin));
    printf("bytes changed %d\n", changed());
    say_truth();
    return 0;
}
