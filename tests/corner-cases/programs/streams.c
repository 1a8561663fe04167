/* Standard input, output and error, copied in every way a program may. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sendfile.h>
int main(void) {
    char *line = 0;
    size_t size = 0;
    long n = 0, bytes = 0;
    while (getline(&line, &size, stdin) > 0) n++, bytes += (long)strlen(line);
    printf("%ld lines, %ld bytes\n", n, bytes);
    fprintf(stderr, "to standard error\n");
    fflush(stdout);
    dprintf(1, "%s %5.2f\n", "direct", 2.5);
    perror("no error");
    putc('\n', stdout);
    printf("terminal %d %d %d\n", isatty(0), isatty(1), isatty(2));
    free(line);
    return 0;
}
