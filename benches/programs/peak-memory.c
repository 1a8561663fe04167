/* peak-memory FILE PROGRAM...: runs it and writes the largest resident size (KiB) of it and its children to FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    pid_t child = fork();
    if (child == 0) execvp(argv[2], argv + 2), _exit(127);
    int status = 0;
    waitpid(child, &status, 0);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    FILE *f = fopen(argv[1], "w");
    if (!f) return 3;
    fprintf(f, "%ld\n", usage.ru_maxrss);
    fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
