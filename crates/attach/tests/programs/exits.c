// Forks, executes, receives signals; what it sees is its exit status.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static int caught;
static void handler(int s) { caught++; }
__attribute__((constructor)) static void early(void) {
    if (getenv("EARLY_FORK")) {
        pid_t child = fork();
        if (child) {
            int status;
            waitpid(child, &status, 0);
            if (status) _exit(99);
        }
        else unsetenv("EARLY_FORK");
    }
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "status")) return atoi(argv[2]);
    if (!strcmp(what, "signal")) { raise(atoi(argv[2])); return 77; }
    if (!strcmp(what, "handle")) {
        int s = atoi(argv[2]);
        signal(s, handler);
        for (int i = 0; i < 100; i++) kill(getpid(), s);
        return caught;
    }
    if (!strcmp(what, "trap")) {
        signal(SIGTRAP, handler);
        __asm__ volatile("int3");
        raise(SIGTRAP);
        return caught;
    }
    if (!strcmp(what, "stop")) {
        pid_t child = fork();
        if (!child) { raise(SIGSTOP); _exit(5); }
        int status;
        if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) return 1;
        kill(child, SIGCONT);
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 2;
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "trace")) {
        pid_t child = fork();
        if (!child) { if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(9); raise(SIGSTOP); _exit(6); }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 3;
        ptrace(PTRACE_CONT, child, 0, 0);
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (!strcmp(what, "masks")) {
        sigset_t blocked;
        struct sigaction action;
        sigprocmask(SIG_SETMASK, 0, &blocked);
        sigaction(SIGTRAP, 0, &action);
        return 2 * sigismember(&blocked, SIGTRAP) + (action.sa_handler == SIG_IGN);
    }
    if (!strcmp(what, "ready")) {
        puts("ready"); fflush(stdout);
        char line[80];
        while (fgets(line, 80, stdin)) { puts(line); fflush(stdout); }
    }
    return 42;
}
