/* Patching of words, calls and windows of a program's own, while threads run through them. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

static atomic_int stop;
static atomic_long called;
static char *code;

void count_call(void) { called++; }

typedef long (*function)(void);
static function functions[64];
static int function_count;

static void *run(void *unused) {
    (void)unused;
    while (!stop)
        for (int i = 0; i < function_count; i++) {
            long n = functions[i]();
            if (n != 0x11111111 && n != 0x22222222) abort();
        }
    return NULL;
}

/* mov eax, imm32; ret: the immediate's word at every offset. */
static void words(void) {
    char *at = code;
    for (int i = 0; i < 8; i++, at += 65) {
        memcpy(at, "\xb8\x11\x11\x11\x11\xc3", 6);
        functions[function_count++] = (function)(void *)at;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, NULL);
    struct transect_word_patch patch = { .length = 5 };
    for (int round = 0; round < 2000; round++)
        for (int i = 0; i < 8; i++) {
            patch.address = (uint64_t)functions[i];
            memcpy(patch.old_bytes, round % 2 ? "\xb8\x22\x22\x22\x22" : "\xb8\x11\x11\x11\x11", 5);
            memcpy(patch.new_bytes, round % 2 ? "\xb8\x11\x11\x11\x11" : "\xb8\x22\x22\x22\x22", 5);
            /* A thread that meets the word meanwhile runs a copy. */
            char *copy = code + 2048 + 16 * (round % 2);
            memcpy(copy, round % 2 ? "\xb8\x11\x11\x11\x11\xc3" : "\xb8\x22\x22\x22\x22\xc3", 6);
            patch.moved = (uint64_t)copy;
            if (i % 2) CHECK(transect_patch(&patch) == 1);
            else {
                CHECK(transect_start_patch(&patch) == 1);
                int finished, calls = 0;
                while ((finished = transect_finish_patch(&patch)) == 0) calls++;
                CHECK(finished == 1 && calls <= 1);
            }
        }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    memcpy(patch.old_bytes, "\x90\x90\x90\x90\x90", 5);
    CHECK(transect_patch(&patch) == TRANSECT_ERROR_FOREIGN_BYTES);
    CHECK(transect_finish_patch(&patch) == 1);
    patch.length = 9;
    CHECK(transect_patch(&patch) == TRANSECT_ERROR_ARGUMENT);
}

/* push rbp; five bytes; pop rbp; mov eax, imm; ret, with the five bytes at every place in a word. */
static void calls(void) {
    struct transect_call_site sites[8];
    char *at = code + 1024;
    char *trampoline = code + 3000;
    memcpy(trampoline, "\xff\x25\x00\x00\x00\x00", 6);
    void (*target)(void) = count_call;
    memcpy(trampoline + 6, &target, 8);
    char *idle = code + 3100;
    *idle = (char)0xc3;
    function_count = 0;
    stop = 0;
    for (int i = 0; i < 8; i++, at += 65) {
        memcpy(at, "\x55\x0f\x1f\x44\x00\x00\x5d\xb8\x11\x11\x11\x11\xc3", 13);
        CHECK(transect_prepare_call(&sites[i], (uint64_t)at + 1, 0xe8, (uint64_t)trampoline, (uint64_t)idle, (const uint8_t *)"\x0f\x1f\x44\x00\x00") == 0);
        functions[function_count++] = (function)(void *)at;
    }
    for (int i = 0; i < 8; i++) CHECK(functions[i]() == 0x11111111 && called == 0);
    for (int i = 0; i < 8; i++) CHECK(transect_activate_call(&sites[i]) == 0);
    for (int i = 0; i < 8; i++) CHECK(functions[i]() == 0x11111111 && called == i + 1);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, NULL);
    for (int round = 0; round < 100000; round++)
        for (int i = 0; i < 8; i++) CHECK((round % 2 ? transect_activate_call(&sites[i]) : transect_deactivate_call(&sites[i])) == 0);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(transect_prepare_call(&sites[0], (uint64_t)code, 0x90, 0, 0, (const uint8_t *)"12345") == TRANSECT_ERROR_ARGUMENT);
    CHECK(transect_activate_call(NULL) == TRANSECT_ERROR_ARGUMENT);
}

static void windows(void) {
    char *at = code + 3500, *to = code + 3600;
    memcpy(at, "\xb8\x11\x11\x11\x11\xc3", 6);
    memcpy(to, "\xb8\x22\x22\x22\x22\xc3", 6);
    int32_t distance = (int32_t)(to - at - 5);
    struct transect_window window = { .address = (uint64_t)at, .length = 5, .starts = 1 };
    memcpy(window.old_bytes, at, 5);
    window.new_bytes[0] = 0xe9;
    memcpy(window.new_bytes + 1, &distance, 4);
    char *copy = code + 3700;
    memcpy(copy, "\xb8\x11\x11\x11\x11\xc3", 6);
    window.moves[0] = (uint64_t)copy;
    struct transect_batch_report report;
    CHECK(transect_patch_windows(&window, 1, &report) == 0 && report.written == 1);
    CHECK(((function)(void *)at)() == 0x22222222);
    CHECK(transect_patch_windows(&window, 1, &report) == 0 && report.already == 1);
    window.length = 40;
    CHECK(transect_patch_windows(&window, 1, &report) == TRANSECT_ERROR_ARGUMENT);
    window.length = 5;
    window.old_bytes[0] ^= 1;
    at[0] = (char)0xcc;
    CHECK(transect_patch_windows(&window, 1, &report) == TRANSECT_ERROR_FOREIGN_BYTES);
    window.address = 4096;
    CHECK(transect_patch_windows(&window, 1, &report) == TRANSECT_ERROR_NOT_EXECUTABLE);
    CHECK(transect_last_error()[0] != 0);
}

int main(void) {
    BEGIN();
    code = mmap((void *)((uintptr_t)main & ~0xfffffffUL), 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    words();
    calls();
    windows();
    CHECK(transect_set_serialization(TRANSECT_SERIALIZE_WAIT, 3000) == 0);
    CHECK(transect_set_serialization(TRANSECT_SERIALIZE_MEMBARRIER, 0) == 0);
    CHECK(transect_set_serialization(7, 0) == TRANSECT_ERROR_ARGUMENT);
    puts("ok");
    return 0;
}
