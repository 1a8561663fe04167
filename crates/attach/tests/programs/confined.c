// Confines itself: argument "strict", "filter" (kills on memfd_create and mmap), or "dumpable".
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (!strcmp(argv[1], "dumpable")) prctl(PR_SET_DUMPABLE, 0);
    if (!strcmp(argv[1], "strict")) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(argv[1], "filter")) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {5, code};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    write(1, "ready\n", 6);
    char line[64];
    ssize_t n;
    while ((n = read(0, line, sizeof line)) > 0) write(1, "here\n", 5);
    syscall(SYS_exit, 3);
    return 0;
}
