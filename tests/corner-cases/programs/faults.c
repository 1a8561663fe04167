/* Deaths and survivals: each exit status, each common signal, and handlers for faults on alternate stacks. */
#define _GNU_SOURCE
#include "../libraries/callbacks.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static sigjmp_buf back;
static volatile char *page;
static int faults;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    faults += plain(signal) > 0;
    if (info->si_addr == (void *)page) { mprotect((void *)page, 4096, PROT_READ | PROT_WRITE); return; }
    siglongjmp(back, signal);
}
static int fault(int value) { *(volatile int *)(long)value = 1; return 0; }
static int touch(int value) { page[0] = (char)value; return page[0]; }
static int overflow(int depth) { volatile char big[4096]; big[0] = (char)depth; return call_back(overflow, depth + 1) + big[0]; }
static int trap(int value) { __builtin_trap(); return value; }
static int divide(int value) { volatile int zero = 0; return value / zero; }
int main(int argc, char **argv) {
    const char *what = argv[1];
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    (void)argc;
    call_back_other(plain, 3);
    if (!strcmp(what, "exit")) exit(atoi(argv[2]));
    if (!strcmp(what, "return")) return atoi(argv[2]);
    if (!strcmp(what, "abort")) { printf("buffered, lost"); abort(); }
    if (!strcmp(what, "raise")) { raise(atoi(argv[2])); puts("survived"); return 0; }
    if (!strcmp(what, "kill")) { kill(getpid(), atoi(argv[2])); for (;;) pause(); }
    if (!strcmp(what, "null")) return call_back_other(fault, 0);
    if (!strcmp(what, "trap")) return call_back_other(trap, 0);
    if (!strcmp(what, "divide")) return call_back_other(divide, 1);
    if (!strcmp(what, "overflow")) return call_back(overflow, 1);
    if (!strcmp(what, "double-free")) { void *p = malloc(32); free(p); free(p); return 0; }
    if (!strcmp(what, "assert")) { fprintf(stderr, "assertion\n"); abort(); }
    if (!strcmp(what, "handled")) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(SIGSEGV, &action, 0), sigaction(SIGILL, &action, 0), sigaction(SIGFPE, &action, 0), sigaction(SIGBUS, &action, 0);
        page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        long sum = 0;
        for (int i = 0; i < 300; i++) {
            int s;
            mprotect((void *)page, 4096, PROT_NONE);
            sum += call_back_other(touch, i % 100);
            if ((s = sigsetjmp(back, 1)) == 0) call_back_other(fault, 8);
            else sum += s;
            if ((s = sigsetjmp(back, 1)) == 0) call_back_deep(trap, 8, 5);
            else sum += s;
            if ((s = sigsetjmp(back, 1)) == 0) call_back(divide, 8);
            else sum += s;
        }
        for (int i = 0; i < 3; i++) {
            int s;
            if ((s = sigsetjmp(back, 1)) == 0) call_back(overflow, 1);
            else sum += s;
        }
        printf("%ld %d\n", sum, faults);
    }
    return 0;
}
