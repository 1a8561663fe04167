// Forks a process with a big heap for each snapshot, of which all page tables are copied.
#include "hclock.h"
#include <sys/wait.h>
static char *heap; 
__attribute__((noinline)) static void save_snapshot(void) {
    IN;
    pid_t p = fork(); // HERE
    if (p == 0) _exit(heap[4096]);
    waitpid(p, NULL, 0); // HERE
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 250; size_t size = 300u << 20; heap = aligned_alloc(4096, size); uint64_t x = 1;
    for (size_t i = 0; i < size; i += 4096) heap[i] = 1;
    for (long i = 0; i < n; i++) { for (int k = 0; k < 300000; k++) x = mixed(x); save_snapshot(); }
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
