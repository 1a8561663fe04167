// A child of vfork that takes its time.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long ms = atol(argv[1]);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    if (!vfork()) {
        // The parent waits for it by now.
        write(1, "ready\n", 6);
        syscall(SYS_nanosleep, &t, 0);
        _exit(0);
    }
    char line[64];
    while (read(0, line, sizeof line) > 0) write(1, "here\n", 5);
    return 0;
}
