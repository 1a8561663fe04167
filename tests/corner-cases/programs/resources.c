/* A process that takes its own resources away: descriptors, address space, file system, system calls. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static long work(void) {
    long sum = 0;
    for (int i = 0; i < 10000; i++) sum += call_back_other(plain, i) + (long)strlen("text");
    return sum;
}
static void *on_thread(void *argument) {
    *(long *)argument = work();
    return 0;
}
static void *small(void *argument) {
    char text[200];
    *(long *)argument = work() + snprintf(text, sizeof text, "%d", plain(5));
    return 0;
}
static void say(const char *what, long value) {
    char line[200];
    int n = snprintf(line, sizeof line, "%s %ld\n", what, value);
    if (write(1, line, (size_t)n) < 0) _exit(99);
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "close";
    pthread_t thread;
    long result = 0;
    if (!strcmp(what, "close")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        pthread_create(&thread, 0, on_thread, &result), pthread_join(thread, 0);
        say("closed", work() + result);
        int first = open("/dev/null", O_RDONLY);
        say("next descriptor", first);
        pid_t pid = fork();
        if (pid == 0) { say("in child", work()); _exit(4); }
        int status;
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
        pid = fork();
        if (pid == 0) execl("/bin/echo", "echo", "from exec", (char *)0), _exit(1);
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
    } else if (!strcmp(what, "close-all")) {
        close_range(0, ~0U, 0);
        int fd = open("/dev/null", O_RDWR);
        work();
        return fd == 0 ? 5 : 6;
    } else if (!strcmp(what, "first-descriptor")) {
        int fd = open("/dev/null", O_RDONLY);
        say("first descriptor", fd);
        int high = dup2(fd, 1000);
        say("dup2", high);
        say("dup of 200", fcntl(fd, F_DUPFD, 200));
        int pipes[2];
        say("pipe", pipe(pipes)), say("ends", pipes[0] * 1000 + pipes[1]);
    } else if (!strcmp(what, "seccomp")) {
        long before = work();
        struct sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {6, rules};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
        for (int i = 0; i < 20; i++) before += work();
        say("filtered", before + plain(1) + call_back_deep(plain, 2, 100) + abs(-4));
        _exit(11);
    } else if (!strcmp(what, "seccomp-strict")) {
        long before = work();
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        before += work();
        say("strict", before);
        syscall(SYS_exit, 12);
    } else if (!strcmp(what, "address-space")) {
        struct rlimit limit = {256 << 20, 256 << 20};
        setrlimit(RLIMIT_AS, &limit);
        void *big = malloc((size_t)1 << 30);
        say("gigabyte", big != 0);
        void *some = malloc(20 << 20);
        if (some) memset(some, 1, 20 << 20);
        say("some", some != 0);
        int failed = pthread_create(&thread, 0, on_thread, &result);
        if (!failed) pthread_join(thread, 0);
        say("work", work() + result);
    } else if (!strcmp(what, "address-space-unseen")) {
        /* By a system call of its own: nobody can make room for himself before it. */
        struct rlimit limit = {512 << 20, 512 << 20};
        long set = -1;
        __asm__ volatile("syscall" : "=a"(set) : "0"((long)SYS_setrlimit), "D"((long)RLIMIT_AS), "S"(&limit) : "rcx", "r11", "memory");
        say("set", set);
        void *some = malloc(64 << 20);
        if (some) memset(some, 1, 64 << 20);
        say("some", some != 0);
        say("gigabyte", malloc((size_t)1 << 30) != 0);
        int failed = pthread_create(&thread, 0, on_thread, &result);
        if (!failed) pthread_join(thread, 0);
        say("work", work() + result);
        pid_t pid = fork();
        if (pid == 0) { execl(argv[0], argv[0], "work", (char *)0); _exit(1); }
        int status;
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
    } else if (!strcmp(what, "seccomp-threads")) {
        /* Threads after a filter that the C library has no part in, which allows what threads need of it. */
        struct sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 1, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_remap_file_pages, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {5, rules};
        long set = -1;
        if (argc > 2) {
            set = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        } else {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            register long flags __asm__("r10") = 0;
            __asm__ volatile("syscall" : "=a"(set) : "0"((long)SYS_seccomp), "D"((long)SECCOMP_SET_MODE_FILTER), "S"(0L), "d"(&program), "r"(flags) : "rcx", "r11", "memory");
        }
        say("set", set);
        for (int i = 0; i < 20; i++) {
            pthread_create(&thread, 0, on_thread, &result), pthread_join(thread, 0);
            say("work", work() + result);
        }
    } else if (!strcmp(what, "work")) {
        int failed = pthread_create(&thread, 0, on_thread, &result);
        if (!failed) pthread_join(thread, 0);
        say("work", work() + result);
    } else if (!strcmp(what, "few-descriptors")) {
        struct rlimit limit = {8, 8};
        setrlimit(RLIMIT_NOFILE, &limit);
        int last = -1, fd;
        while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) last = fd;
        say("last descriptor", last), say("errno", errno == EMFILE);
        pthread_create(&thread, 0, on_thread, &result), pthread_join(thread, 0);
        say("work", work() + result);
        pid_t pid = fork();
        if (pid == 0) { execl(argv[0], argv[0], "work", (char *)0); _exit(1); }
        int status;
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
    } else if (!strcmp(what, "no-descriptors")) {
        /* What is executed with no descriptor left can't load a library: the message is the loader's, as without us. */
        struct rlimit limit = {16, 16};
        setrlimit(RLIMIT_NOFILE, &limit);
        int closed = argc > 2 ? O_CLOEXEC : 0;
        while (open("/dev/null", O_RDONLY | closed) >= 0);
        pid_t pid = fork();
        if (pid == 0) { execl(argv[0], argv[0], "work", (char *)0); _exit(1); }
        int status;
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
        say("shell", WEXITSTATUS(system(closed ? "exit 5" : "exit 6")));
    } else if (!strcmp(what, "chroot")) {
        if (chroot(argv[2]) || chdir("/")) return 1;
        pthread_create(&thread, 0, on_thread, &result), pthread_join(thread, 0);
        say("inside", work() + result);
        pid_t pid = fork();
        if (pid == 0) { say("child inside", work()); execl("/bin/nothing", "x", (char *)0); _exit(errno == ENOENT ? 2 : 3); }
        int status;
        waitpid(pid, &status, 0);
        say("child", WEXITSTATUS(status));
    } else if (!strcmp(what, "small-stacks")) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
        for (int i = 0; i < 200; i++) {
            long own = 0;
            pthread_create(&thread, &attributes, small, &own), pthread_join(thread, 0);
            result += own;
        }
        say("small stacks", result);
    } else if (!strcmp(what, "maps")) {
        FILE *f = fopen("/proc/self/maps", "r");
        char line[5000];
        int stack = 0, own = 0, count = 0;
        while (fgets(line, sizeof line, f)) {
            stack += strstr(line, "[stack]") != 0, own += strstr(line, "resources") != 0, count++;
        }
        fclose(f);
        say("stack", stack), say("own", own > 3), say("count", count > 10);
        char name[4096];
        ssize_t n = readlink("/proc/self/exe", name, sizeof name - 1);
        name[n > 0 ? n : 0] = 0;
        say(strrchr(name, '/') + 1, program_invocation_name == argv[0]);
        f = fopen("/proc/self/status", "r");
        while (fgets(line, sizeof line, f))
            if (!strncmp(line, "Threads", 7) || !strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6) || !strncmp(line, "TracerPid", 9))
                say(strtok(line, "\n"), 0);
        fclose(f);
    } else if (!strcmp(what, "memory-lock")) {
        int locked = mlockall(MCL_CURRENT | MCL_FUTURE);
        pthread_create(&thread, 0, on_thread, &result), pthread_join(thread, 0);
        say("locked", locked), say("work", work() + result);
    }
    return 0;
}
