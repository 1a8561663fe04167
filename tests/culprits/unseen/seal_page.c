// Unprotects and protects the page of each entry around each change.
#include "hclock.h"
#include <sys/mman.h>
static char *pages; enum { PAGES = 2000 };
__attribute__((noinline)) static void change_entry(uint64_t x) {
    char *page = pages + (x % PAGES) * 4096;
    IN;
    mprotect(page, 4096, PROT_READ | PROT_WRITE); // HERE
    page[x % 4000]++;
    mprotect(page, 4096, PROT_READ); // HERE
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 500000; uint64_t x = 1;
    pages = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < n; i++) { for (int k = 0; k < 150; k++) x = mixed(x); change_entry(x); }
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
