// Sorts the same table of words anew for each question; the binary has no symbols.
#include "hclock.h"
static char *words[4000];
static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
__attribute__((noinline)) static const char *median_word(void) { IN; qsort(words, 4000, sizeof *words, by_text); OUT; return words[2000]; } // HERE
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 5000; char t[32]; uint64_t s = 0;
    for (int i = 0; i < 4000; i++) { snprintf(t, sizeof t, "w%lx", (long)mixed(i)); words[i] = strdup(t); }
    for (long i = 0; i < n; i++) { for (int k = 0; k < 300; k++) { uint64_t a = mixed(i * 300 + k) % 4000, b = mixed(a + i) % 4000; char *x = words[a]; words[a] = words[b]; words[b] = x; } s += median_word()[2]; }
    printf("%d\n", (int)(s & 7)); CLOCK_SAY;
}
