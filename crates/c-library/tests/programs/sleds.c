/* Sites that compilers make: switched in the text, where they are a no-op while off, at every place in a word. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define F(n) \
    __attribute__((noinline, aligned(1))) long f##n(long x) { \
        BARRIER(); \
        return x + n; \
    }
#define SKIP(n) __asm__(".skip " #n ", 0x90");
F(0) SKIP(1) F(1) SKIP(1) F(2) SKIP(2) F(3) SKIP(3) F(4) SKIP(5) F(5) SKIP(6) F(6) SKIP(7) F(7) SKIP(1) F(8) SKIP(2) F(9)
static long (*functions[])(long) = { f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 };
enum { N = 10 };

static atomic_int stop;
static void *run(void *calls) {
    unsigned long n = 0;
    while (!stop) {
        for (long i = 0; i < N; i++)
            if (functions[i](n) != (long)n + i) abort();
        n++;
    }
    *(unsigned long *)calls = n;
    return NULL;
}

int main(int count, char **arguments) {
    int expected = count > 1 ? atoi(arguments[1]) : -1;
    BEGIN();
    unsigned char before[4096];
    char *volatile lowest = (char *)f0;
    char *start = lowest;
    for (int i = 0; i < N; i++)
        if ((char *)functions[i] < start) start = (char *)functions[i];
    start -= 16;
    memcpy(before, start, 1024);
    transect_id ids[N];
    int places = 0;
    for (int i = 0; i < N; i++) {
        CHECK(transect_find_function((void *)functions[i], &ids[i]) == 0);
        struct transect_site site;
        CHECK(transect_get_site(ids[i], &site) == 0);
        if (expected >= 0) CHECK((int)site.provider == expected);
        places |= 1 << site.address % 8;
    }
    CHECK(transect_install(ids, N, NULL) == N);
    unsigned long calls[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, &calls[i]);
    for (int round = 0; round < 20000; round++) {
        transect_activate_batch(ids, N);
        transect_deactivate_batch(ids, N);
    }
    transect_activate_batch(ids, N);
    for (int round = 0; round < 50; round++) {
        CHECK(transect_restore(ids, N, NULL) == N);
        CHECK(transect_install(ids, N, NULL) == N);
        transect_activate_batch(ids, N);
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) CHECK(transect_reset(ids[i]) == 0 && transect_is_active(ids[i]) == 1);
    for (long n = 0; n < 1000; n++)
        for (int i = 0; i < N; i++) functions[i](n);
    for (int i = 0, bad = 0; i < N; i++) {
        uint64_t c;
        CHECK(transect_count(ids[i], &c) == 0);
        if (c != 1000) bad = 1;
        CHECK(!bad);
    }
    for (int i = 0; i < N; i++) CHECK(transect_reset(ids[i]) == 0 && transect_set_handler(ids[i], TRANSECT_HANDLER_TIME) == 0);
    for (long n = 0; n < 1000; n++)
        for (int i = 0; i < N; i++) functions[i](n);
    for (int i = 0; i < N; i++) {
        struct transect_times times;
        CHECK(transect_get_times(ids[i], &times) == 0 && times.timed == 1000);
    }
    CHECK(transect_restore_all() == N);
    CHECK(memcmp(before, start, 1024) == 0);
    printf("ok %#x\n", places);
    return 0;
}
