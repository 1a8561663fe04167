/* libtransect: patching a word of code, alone and while a thread executes it, beside membarrier() in the same state. */
#define _GNU_SOURCE
#include "ticks.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <transect.h>
#include <unistd.h>

enum { ROUNDS = 2000 };
static atomic_int stop;
static char *code;

static int die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, transect_last_error());
    exit(1);
}

static void *execute(void *at) {
    while (!stop) {
        unsigned n = ((unsigned (*)(void))at)();
        if (n != 0x11111111 && n != 0x22222222) abort();
    }
    return NULL;
}

/* mov eax, imm32; ret, patched to and fro; the mean of one patch by itself without the largest tenth, and the mean of many in a row. */
static void measure(const char *name, char *at, int bytes, double net) {
    double values[ROUNDS];
    struct transect_word_patch there = {.address = (uint64_t)at, .length = 5}, back = there;
    memcpy(there.old_bytes, "\xb8\x11\x11\x11\x11", 5);
    memcpy(there.new_bytes, "\xb8\x22\x22\x22\x22", 5);
    memcpy(there.new_bytes + 1 + bytes, there.old_bytes + 1 + bytes, 4 - bytes);
    memcpy(back.old_bytes, there.new_bytes, 5);
    memcpy(back.new_bytes, there.old_bytes, 5);
    memcpy(at, "\xb8\x11\x11\x11\x11\xc3", 6);
    memcpy(code + 2048, "\xb8\x11\x11\x11\x11\xc3", 6);
    there.moved = back.moved = (uint64_t)code + 2048;
    char key[64];
    double best = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = ticks();
        int done = transect_patch(i % 2 ? &back : &there);
        values[i] = (double)(ticks() - start) - net;
        if (done != 1) die(name);
    }
    snprintf(key, sizeof key, "%s-one", name);
    result(key, quiet_mean(values, ROUNDS));
    for (int round = 0; round < 20; round++) {
        uint64_t start = ticks();
        for (int i = 0; i < 100; i++)
            if (transect_patch(i % 2 ? &back : &there) != 1) die(name);
        double each = (double)(ticks() - start) / 100;
        if (each < best) best = each;
    }
    snprintf(key, sizeof key, "%s-bulk", name);
    result(key, best);
}

static void barrier(const char *name, double net) {
    double values[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = ticks();
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
        values[i] = (double)(ticks() - start) - net;
    }
    result(name, median(values, ROUNDS));
}

int main(void) {
    double net = empty_interval();
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED || transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL)) die("init");
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    measure("word", code + 64, 4, net);
    measure("two-words-one-differs", code + 64 * 3 + 5, 2, net);
    measure("within-line", code + 64 * 5 + 5, 4, net);
    measure("across-lines", code + 64 * 7 + 61, 4, net);
    barrier("membarrier", net);
    static const struct { const char *name; int offset, bytes; } fired[] = {
        {"word-fired", 64 * 9, 4}, {"within-line-fired", 64 * 11 + 5, 4}, {"across-lines-fired", 64 * 13 + 61, 4}};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        stop = 0;
        memcpy(code + fired[i].offset, "\xb8\x11\x11\x11\x11\xc3", 6);
        pthread_create(&thread, NULL, execute, code + fired[i].offset);
        measure(fired[i].name, code + fired[i].offset, fired[i].bytes, net);
        if (i == 2) barrier("membarrier-fired", net);
        stop = 1;
        pthread_join(thread, NULL);
    }
    return 0;
}
