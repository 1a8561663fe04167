// Makes machine code for a formula at run time and runs it. The code has a frame pointer but no name.
#include "../own_clock.h"
#include <pthread.h>
#include <sys/mman.h>

typedef uint64_t Formula(uint64_t start, uint64_t rounds);

static Formula *compiled(void) {
#ifdef __x86_64__
    static const unsigned char code[] = {
        0x55, 0x48, 0x89, 0xe5, // push rbp; mov rbp, rsp
        0x48, 0x89, 0xf8,       // mov rax, rdi
        0x48, 0x6b, 0xc0, 0x1f, // again: imul rax, rax, 31
        0x48, 0x01, 0xf0,       // add rax, rsi
        0x48, 0xc1, 0xc8, 0x07, // ror rax, 7
        0x48, 0xff, 0xce,       // dec rsi
        0x75, 0xf0,             // jnz again
        0x5d, 0xc3,             // pop rbp; ret
    };
#else
#error only for x86-64
#endif
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    Formula *formula;
    *(void **)&formula = page;
    return formula;
}

__attribute__((noinline)) static uint64_t run_formula(Formula *formula, uint64_t row) {
    uint64_t result = formula(row, 30000); // culprit
    return result % 1000;
}

__attribute__((noinline)) static uint64_t load_row(uint64_t row) {
    for (int i = 0; i < 1500; i++)
        row = scrambled(row);
    return row;
}

static void *show_progress(void *nothing) {
    for (;;)
        usleep(50000);
    return nothing;
}

int main(int argc, char **argv) {
    long rows = amount(argc, argv, 25000);
    double begin = seconds(), running = 0, sum = 0;
    Formula *formula = compiled();
    pthread_t progress;
    pthread_create(&progress, NULL, show_progress, NULL);
    for (long i = 0; i < rows; i++) {
        uint64_t row = load_row((uint64_t)i);
        double start = seconds();
        sum += (double)run_formula(formula, row);
        running += seconds() - start;
    }
    return tell(running, begin, sum);
}
