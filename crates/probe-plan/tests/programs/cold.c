/* The compiler splits `parse` in a hot and a cold part. */
#include <stdio.h>
#include <stdlib.h>

extern void complain(const char *, int) __attribute__((cold, noinline));
void complain(const char *what, int n) { fprintf(stderr, "%s %d\n", what, n); }

int __attribute__((noinline)) parse(const char *text, int *out) {
    int n = 0;
    for (; *text; text++) {
        if (__builtin_expect(*text < '0' || *text > '9', 0)) {
            complain(text, n);
            complain("again", n + *text);
            *out = n;
            if (n > 99)
                abort();
            return -1;
        }
        n = n * 10 + *text - '0';
    }
    *out = n;
    return 0;
}

int main(int argc, char **argv) {
    int n = 0;
    return argc > 1 ? parse(argv[1], &n) + n : 0;
}
