// Opens the converter anew for each title.
#include "hclock.h"
#include <iconv.h>
__attribute__((noinline)) static size_t recode_title(char *title, size_t n) {
    char out[256], *to = out; size_t room = sizeof out;
    IN;
    iconv_t c = iconv_open("UTF-16LE", "ISO-8859-15"); // HERE
    if (c == (iconv_t)-1 || iconv(c, &title, &n, &to, &room) == (size_t)-1) abort();
    iconv_close(c); // HERE
    OUT;
    return room;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long titles = argc > 1 ? atol(argv[1]) : 4000000; size_t sum = 0; char title[64];
    for (long i = 0; i < titles; i++) { int n = snprintf(title, sizeof title, "Title %lu", (unsigned long)mixed(i)); sum += recode_title(title, n); }
    printf("%zu\n", sum); CLOCK_SAY;
}
