/* Every tier sees the right registers, changes what it writes to, and leaves all others alone: integer, pointer, double,
 * __m256, structure by value, stack arguments, results in rax, rdx, xmm0; flags; errno; a handler that calls libc. */
#include "check.h"
#include <errno.h>
#include <immintrin.h>
#include <stdint.h>

struct big { long a[8]; };
struct pair { double x; long y; };

#define TARGET __attribute__((noinline, noclone))
TARGET long integers(long a, const char *b, int c, long d, long e, long f, long on_stack) {
    BARRIER();
    return a + b[0] + c + d + e + f + on_stack;
}
TARGET double doubles(double a, float b, double c) {
    BARRIER();
    return a * 2 + b + c;
}
TARGET struct pair pairs(struct pair p, struct big by_value) {
    BARRIER();
    p.x += by_value.a[7];
    p.y += by_value.a[0];
    return p;
}
__attribute__((target("avx2"))) TARGET __m256d wide(__m256d a, __m256d b) {
    BARRIER();
    return _mm256_add_pd(a, b);
}
TARGET int variadic(const char *format, ...) {
    char text[100];
    __builtin_va_list list;
    __builtin_va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    __builtin_va_end(list);
    return n + text[0];
}

static uint64_t registers_seen[10], result_seen, result2_seen, stack_argument;
static double xmm_seen[8], xmm0_result;
static unsigned char wide_seen[2][32];
static uint64_t flags_seen;
static int mode;

/* No vector register is used, as memcpy might. */
static void copy_word(void *to, const void *from) { __asm__ volatile("movsq" : "+D"(to), "+S"(from) : : "memory"); }

__attribute__((target("general-regs-only"))) static uint64_t enter(transect_id id, struct transect_registers *r, void *vectors, void *data) {
    (void)id;
    const uint64_t *from = &r->rbp;
    for (int i = 0; i < 10; i++) registers_seen[i] = from[i];
    stack_argument = (&r->return_address)[1];
    if ((uintptr_t)data % 2 == 0)
        for (int i = 0; i < 8; i++) ((uint64_t *)xmm_seen)[i] = ((uint64_t *)vectors)[2 * i];
    if ((uintptr_t)data == TRANSECT_TIER_FULL) {
        const struct transect_full_context *full = vectors;
        flags_seen = full->rflags;
        for (int i = 0; i < 8; i++) ((uint64_t *)xmm_seen)[i] = ((uint64_t *)((char *)vectors + 64 + 160))[2 * i];
        for (int v = 0; v < 2; v++)
            for (int i = 0; i < 16; i++) {
                wide_seen[v][i] = ((unsigned char *)vectors)[64 + 160 + 16 * v + i];
                wide_seen[v][16 + i] = ((unsigned char *)vectors)[64 + 576 + 16 * v + i];
            }
    }
    if (mode == 1) r->rdi += 1000;
    return 77;
}
__attribute__((target("general-regs-only"))) static void leave(transect_id id, struct transect_registers *r, void *vectors, uint64_t cookie, void *data) {
    (void)id;
    if (cookie != 77) abort();
    result_seen = r->rax;
    result2_seen = r->rdx;
    if ((uintptr_t)data % 2 == 0) copy_word(&xmm0_result, vectors);
    if ((uintptr_t)data == TRANSECT_TIER_FULL) copy_word(&xmm0_result, (char *)vectors + 64 + 160);
    if (mode == 1) r->rax *= 2;
}
/* Destroys everything that C may destroy, upper halves of vector registers included. */
static uint64_t destroy(transect_id id, struct transect_registers *r, void *vectors, void *data) {
    (void)id, (void)r, (void)vectors, (void)data;
    char text[300];
    int kept = errno;
    snprintf(text, sizeof text, "%f %s", 1.5, "some words that are long enough for vector code");
    if (strlen(text) < 10 || strchr(text, 'q')) abort();
    if (__builtin_cpu_supports("avx2")) __asm__ volatile("vzeroall" ::: "memory");
    errno = kept;
    return 77;
}
static void destroy_after(transect_id id, struct transect_registers *r, void *vectors, uint64_t cookie, void *data) {
    (void)cookie;
    destroy(id, r, vectors, data);
}

static transect_id find(void *function) {
    transect_id id;
    CHECK(transect_find_function(function, &id) == 0);
    CHECK(transect_install(&id, 1, NULL) == 1);
    return id;
}

__attribute__((target("avx2"))) static void check_wide(void) {
    __m256d r = wide(_mm256_set_pd(4, 3, 2, 1), _mm256_set_pd(40, 30, 20, 10));
    double out[4];
    _mm256_storeu_pd(out, r);
    CHECK(out[0] == 11 && out[1] == 22 && out[2] == 33 && out[3] == 44);
}

static void call_all(void) {
    errno = 5;
    CHECK(integers(1, "\2", 3, 4, 5, 6, 7) == 28);
    CHECK(doubles(1.5, 2.5f, 3.5) == 9.0);
    struct big b = { { 10, 0, 0, 0, 0, 0, 0, 5 } };
    struct pair p = pairs((struct pair){ 0.5, 3 }, b);
    CHECK(p.x == 5.5 && p.y == 13);
    if (__builtin_cpu_supports("avx2")) check_wide();
    CHECK(variadic("%d %s %.1f", 5, "x", 2.5) == 7 + '5');
    CHECK(errno == 5);
}

int main(void) {
    BEGIN();
    transect_id ids[5] = { find((void *)integers), find((void *)doubles), find((void *)pairs), find((void *)wide), find((void *)variadic) };
    transect_handler handler;
    call_all();
    for (uintptr_t tier = 1; tier <= 4; tier++) {
        struct transect_handler_options h = { .tier = (uint32_t)tier, .enter = enter, .exit = leave, .data = (void *)tier };
        CHECK(transect_register_handler(&h, &handler) == 0);
        for (int i = 0; i < 5; i++) CHECK(transect_set_handler(ids[i], handler) == 0);
        CHECK(transect_activate_batch(ids, 5) == 5);
        call_all();
        const char *text = "\2";
        integers(11, text, 13, 14, 15, 16, 17);
        CHECK(registers_seen[5] == 11 && registers_seen[6] == (uint64_t)text && (int)registers_seen[7] == 13);
        CHECK(registers_seen[8] == 14 && registers_seen[4] == 15 && registers_seen[3] == 16 && stack_argument == 17);
        CHECK(result_seen == 11 + 2 + 13 + 14 + 15 + 16 + 17);
        if (tier >= 2) {
            doubles(1.5, 2.5f, 3.5);
            float second;
            memcpy(&second, &xmm_seen[1], sizeof second);
            CHECK(xmm_seen[0] == 1.5 && second == 2.5f && xmm_seen[2] == 3.5 && xmm0_result == 9.0);
        }
        if (tier == 3 && __builtin_cpu_supports("avx2")) {
            check_wide();
            double seen[8];
            memcpy(seen, wide_seen, sizeof seen);
            for (int i = 0; i < 4; i++) CHECK(seen[i] == i + 1 && seen[4 + i] == (i + 1) * 10);
            CHECK(flags_seen & 2);
        }
        mode = 1;
        CHECK(integers(1, "\2", 3, 4, 5, 6, 7) == 1028 * 2);
        mode = 0;
        CHECK(transect_deactivate_batch(ids, 5) == 5);
    }
    for (uint32_t tier = TRANSECT_TIER_VECTOR; tier <= TRANSECT_TIER_FULL; tier++) {
        struct transect_handler_options h = { .tier = tier, .enter = destroy, .exit = destroy_after };
        CHECK(transect_register_handler(&h, &handler) == 0);
        for (int i = 0; i < 5; i++) CHECK(transect_set_handler(ids[i], handler) == 0);
        CHECK(transect_activate_batch(ids, 5) == 5);
        for (int i = 0; i < 100; i++) call_all();
    }
    puts("ok");
    return 0;
}
