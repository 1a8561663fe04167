/* The program sees its own environment, no more: also after changes, in children, and in an emptied one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void show(const char *title) {
    printf("%s\n", title);
    for (char **e = environ; e && *e; e++) printf("  %s\n", *e);
    fflush(stdout);
}
static void child(const char *title, const char *self, char **environment) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) execve(self, (char *[]){(char *)self, (char *)title, 0}, environment), _exit(1);
    waitpid(pid, 0, 0);
}
int main(int argc, char **argv, char **envp) {
    if (argc > 1) { show(argv[1]); return 0; }
    show("own");
    printf("same array %d, LD_PRELOAD %s\n", envp == environ, getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "unset");
    FILE *f = fopen("/proc/self/environ", "r");
    char text[65536];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    (void)n;
    child("empty", argv[0], (char *[]){0});
    child("one", argv[0], (char *[]){"ONE=1", 0});
    child("null", argv[0], 0);
    setenv("ADDED", "yes", 1);
    child("added", argv[0], environ);
    unsetenv("ADDED");
    clearenv();
    child("cleared", argv[0], environ ? environ : (char *[]){0});
    setenv("PATH", "/usr/bin:/bin", 1);
    fflush(stdout);
    char command[4096];
    snprintf(command, sizeof command, "env -i %s through-env; env", argv[0]);
    FILE *p = popen(command, "r");
    while (fgets(text, sizeof text, p)) if (strncmp(text, "_=", 2)) fputs(text, stdout);
    pclose(p);
    return 0;
}
