/* Each way of making a process; children's output and status are compared as well. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void await(pid_t pid, const char *what) {
    int status = 0;
    if (pid < 0) { printf("%s: no child\n", what); fflush(stdout); return; }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status)) printf("%s: exit %d\n", what, WEXITSTATUS(status));
    else printf("%s: signal %d\n", what, WTERMSIG(status));
    fflush(stdout);
}
static int in_clone(void *argument) {
    plain(1);
    return *(int *)argument;
}
static int said;
static void say(const char *text, size_t size) { said += (int)write(1, text, size); }
static void prepare(void) { say("prepare\n", 8); }
static void parent_side(void) { say("parent\n", 7); }
static void child_side(void) { }
int main(int argc, char **argv) {
    if (argc > 1) {
        printf("child %s, %d arguments, plain %d\n", argv[1], argc, plain(argc));
        if (!strcmp(argv[1], "abort")) abort();
        return atoi(argv[1]);
    }
    setvbuf(stdout, 0, _IOLBF, 0);
    pid_t pid;
    for (int i = 0; i < 50; i++) {
        fflush(stdout);
        if ((pid = fork()) == 0) {
            int sum = 0;
            for (int k = 0; k < 1000; k++) sum += call_back_other(plain, k);
            if (i == 0) { printf("in fork %d\n", sum); exit(3); }
            if (i % 2) _exit(i);
            exit(i);
        }
        if (i < 3 || i > 47) await(pid, "fork");
        else waitpid(pid, 0, 0);
    }
    if ((pid = fork()) == 0) {
        if ((pid = fork()) == 0) _exit(plain(5));
        await(pid, "grandchild");
        exit(7);
    }
    await(pid, "fork in fork");
    for (int i = 0; i < 20; i++) {
        if ((pid = vfork()) == 0) _exit(i + 40);
        if (i > 17) await(pid, "vfork, _exit");
        else waitpid(pid, 0, 0);
    }
    if ((pid = vfork()) == 0) {
        execl(argv[0], argv[0], "5", "x", (char *)0);
        _exit(99);
    }
    await(pid, "vfork, execl");
    if ((pid = vfork()) == 0) {
        execl("/nonexistent/program", "x", (char *)0);
        _exit(errno == ENOENT ? 98 : 99);
    }
    await(pid, "vfork, failed execl");
    char *arguments[] = {argv[0], "6", "y", "z", 0};
    if ((pid = fork()) == 0) execv(argv[0], arguments), _exit(99);
    await(pid, "execv");
    if ((pid = fork()) == 0) execve(argv[0], arguments, environ), _exit(99);
    await(pid, "execve");
    if ((pid = fork()) == 0) execvp("sh", (char *[]){"sh", "-c", "echo from sh; exit 9", 0}), _exit(99);
    await(pid, "execvp");
    if ((pid = fork()) == 0) execvpe("sh", (char *[]){"sh", "-c", "echo \"$ONLY\"; exit 10", 0}, (char *[]){"ONLY=this", "PATH=/bin:/usr/bin", 0}), _exit(99);
    await(pid, "execvpe");
    if ((pid = fork()) == 0) execle(argv[0], argv[0], "11", (char *)0, (char *[]){0}), _exit(99);
    await(pid, "execle, empty environment");
    if ((pid = fork()) == 0) execlp("sh", "sh", "-c", "exit 12", (char *)0), _exit(99);
    await(pid, "execlp");
    if ((pid = fork()) == 0) { int fd = open(argv[0], O_RDONLY | O_CLOEXEC); fexecve(fd, arguments, environ), _exit(99); }
    await(pid, "fexecve");
    if ((pid = fork()) == 0) { syscall(SYS_execve, argv[0], arguments, environ), _exit(99); }
    await(pid, "execve by syscall()");
    if (posix_spawn(&pid, argv[0], 0, 0, arguments, environ)) pid = -1;
    await(pid, "posix_spawn");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addclose(&actions, 0);
    if (posix_spawnp(&pid, "sh", &actions, 0, (char *[]){"sh", "-c", "echo spawned >&2; exit 13", 0}, (char *[]){"PATH=/bin", 0})) pid = -1;
    await(pid, "posix_spawnp, file actions");
    printf("posix_spawn of nothing: %d\n", posix_spawn(&pid, "/nonexistent", 0, 0, arguments, environ) == ENOENT);
    char command[4096];
    snprintf(command, sizeof command, "%s 14; exit 15", argv[0]);
    printf("system: %d\n", WEXITSTATUS(system(command)));
    snprintf(command, sizeof command, "%s 16", argv[0]);
    FILE *pipe = popen(command, "r");
    char line[200];
    while (fgets(line, sizeof line, pipe)) printf("popen: %s", line);
    printf("pclose: %d\n", WEXITSTATUS(pclose(pipe)));
    fflush(stdout);
    static char stack[65536] __attribute__((aligned(16)));
    int code = 17;
    await(clone(in_clone, stack + sizeof stack, SIGCHLD, &code), "clone");
    code = 18;
    await(clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &code), "clone with shared memory");
    if ((pid = fork()) == 0) execl(argv[0], argv[0], "abort", (char *)0);
    await(pid, "abort in child");
    if ((pid = fork()) == 0) kill(getpid(), SIGKILL);
    await(pid, "SIGKILL in child");
    pthread_atfork(prepare, parent_side, child_side);
    fflush(stdout);
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC)) return 1;
    char byte;
    if ((pid = fork()) == 0) { if (read(pipes[0], &byte, 1) != 1) _exit(1); _exit(plain(6)); }
    if (write(pipes[1], "x", 1) != 1) return 1;
    await(pid, "fork with handlers");
    return 0;
}
