/* Kernel uprobes through perf_event_open, counting only: attaching, detaching, and a hit at three kinds of entry. */
#define _GNU_SOURCE
#include "ticks.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The probed instruction first: a no-op of five bytes, of one byte, a push, and one that must be single-stepped. */
__asm__(".text\n"
        ".p2align 6\nat_nop5: .byte 0x0f,0x1f,0x44,0,0\n lea (%rdi,%rsi),%rax\n ret\n"
        ".p2align 6\nat_nop1: nop\n lea (%rdi,%rsi),%rax\n ret\n"
        ".p2align 6\nat_push: push %rbp\n lea (%rdi,%rsi),%rax\n pop %rbp\n ret\n"
        ".p2align 6\nat_other: lea (%rdi,%rsi),%rax\n ret\n");
extern long at_nop5(long, long), at_nop1(long, long), at_push(long, long), at_other(long, long);
extern char __executable_start;

static int attach(int type, uint64_t offset) {
    struct perf_event_attr attr = {.size = sizeof attr, .type = type};
    attr.uprobe_path = (uint64_t)(uintptr_t)"/proc/self/exe";
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return -1;
    path[n] = 0;
    attr.uprobe_path = (uint64_t)(uintptr_t)path;
    attr.probe_offset = offset;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(void) {
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    int type;
    if (!file || fscanf(file, "%d", &type) != 1) return fprintf(stderr, "the kernel has no uprobe events\n"), 1;
    fclose(file);
    const struct { const char *name; function f; } kinds[] = {{"nop5", at_nop5}, {"nop1", at_nop1}, {"push", at_push}, {"other", at_other}};
    double on[15], off[15];
    for (int k = 0; k < 4; k++) {
        uint64_t offset = (uintptr_t)kinds[k].f - (uintptr_t)&__executable_start;
        double bare = call_cost(kinds[k].f, 10000);
        int fd = attach(type, offset);
        if (fd < 0) return fprintf(stderr, "perf_event_open: %s\n", strerror(errno)), 1;
        char name[32];
        snprintf(name, sizeof name, "call-%s", kinds[k].name);
        result(name, call_cost(kinds[k].f, 2000) - bare);
        close(fd);
        if (k) continue;
        for (int i = 0; i < 15; i++) {
            uint64_t start = ticks();
            fd = attach(type, offset);
            on[i] = (double)(ticks() - start);
            start = ticks();
            close(fd);
            off[i] = (double)(ticks() - start);
        }
        result("on", median(on, 15));
        result("off", median(off, 15));
    }
}
