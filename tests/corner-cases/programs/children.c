/* Starting programs in every way leaves the program's environment and memory as they were. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static long pages(void) {
    long size = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &size) != 1) abort();
    fclose(f);
    return size;
}
static void look(const char *title) {
    printf("%s: %s\n", title, getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "unset");
    fflush(stdout);
}
static void reap(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) printf("status %x\n", status);
}
int main(void) {
    char *none[] = {"true", 0};
    enum { TIMES = 150 };
    pid_t pid;
    long before = 0;
    for (int i = -3; i < TIMES; i++) {
        if (i == 0) before = pages();
        posix_spawnp(&pid, "true", 0, 0, none, environ), reap(pid);
        if ((pid = vfork()) == 0) execve("/bin/true", none, environ), _exit(1);
        reap(pid);
        if (i % 8 == 0 && system("true")) puts("system");
    }
    printf("grew %d\n", pages() - before >= TIMES);
    if ((pid = vfork()) == 0) execvp("true", none), _exit(1);
    reap(pid), look("execvp in the child of vfork");
    if ((pid = vfork()) == 0) execlp("sh", "sh", "-c", "echo $# $1 $5 $9", "name", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)0), _exit(1);
    reap(pid), look("execlp in the child of vfork");
    if ((pid = vfork()) == 0) execl("/bin/true", "true", (char *)0), _exit(1);
    reap(pid), look("execl in the child of vfork");
    execv("/nonexistent", none), look("execv failed");
    execl("/nonexistent", "x", (char *)0), look("execl failed");
    execlp("nonexistent-program", "x", (char *)0), look("execlp failed");
    return 0;
}
