/* daemon(3): the parent leaves at once, the child goes on without a terminal; its words come through a pipe. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int pipes[2];
    if (pipe(pipes)) return 1;
    if (fork() == 0) {
        close(pipes[0]);
        if (daemon(0, 0)) return 1;
        char text[100];
        int sum = 0;
        for (int i = 0; i < 1000; i++) sum += plain(i);
        int n = snprintf(text, sizeof text, "daemon: sum %d, session leader %d\n", sum, getsid(0) != getppid());
        if (write(pipes[1], text, n) != n) return 1;
        exit(0);
    }
    close(pipes[1]);
    char text[200];
    ssize_t n;
    while ((n = read(pipes[0], text, sizeof text)) > 0) fwrite(text, 1, (size_t)n, stdout);
    int status;
    wait(&status);
    printf("launcher: %d\n", WEXITSTATUS(status));
    return 0;
}
