/* A program's life with probes: threads, signals at 1 kHz, longjmp, fork, dlclose, a SIGTRAP handler of its own, W^X.
 * The argument says which. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TARGET __attribute__((noinline, noclone))
TARGET long hot(long a, long b) {
    BARRIER();
    return a * 3 + b;
}
TARGET long outer(long a) {
    BARRIER();
    return hot(a, 1) + hot(a, 2);
}
static jmp_buf jump;
TARGET long leaves(long depth) {
    BARRIER();
    if (depth == 0) longjmp(jump, 7);
    return leaves(depth - 1) + 1;
}

static transect_id id_hot, id_outer, id_leaves;
static atomic_int stop;
static atomic_long handled, left_count;

static uint64_t enter(transect_id id, struct transect_registers *r, void *vectors, void *data) {
    (void)r, (void)vectors, (void)data;
    handled++;
    return id + 1;
}
static void leave(transect_id id, struct transect_registers *r, void *vectors, uint64_t cookie, void *data) {
    (void)r, (void)vectors, (void)data;
    if (cookie != id + 1) abort();
    left_count++;
}

static transect_id install(void *function, transect_handler handler) {
    transect_id id;
    CHECK(transect_find_function(function, &id) == 0);
    CHECK(transect_set_handler(id, handler) == 0);
    CHECK(transect_install(&id, 1, NULL) == 1);
    return id;
}

static void *work(void *n) {
    for (long i = 0; i < (long)n; i++)
        if (outer(i) != 6 * i + 3) abort();
    return NULL;
}
static void *work_on(void *unused) {
    (void)unused;
    for (long i = 0; !stop; i++)
        if (outer(i) != 6 * i + 3) abort();
    return NULL;
}
static void *toggle(void *seed) {
    unsigned x = (unsigned)(uintptr_t)seed + 1;
    while (!stop) {
        x = x * 1103515245 + 12345;
        transect_id id = x & 0x10000 ? id_hot : id_outer;
        int status = x & 0x20000 ? transect_activate(id) : transect_deactivate(id);
        if (status != 0 && status != TRANSECT_ERROR_NOT_INSTALLED) abort();
    }
    return NULL;
}

static void threads(void) {
    for (int n = 1; n <= 16; n *= 2) {
        CHECK(transect_reset(id_hot) == 0 && transect_reset(id_outer) == 0);
        transect_set_handler(id_hot, TRANSECT_HANDLER_COUNT);
        transect_set_handler(id_outer, TRANSECT_HANDLER_TIME);
        transect_activate(id_hot);
        transect_activate(id_outer);
        pthread_t list[16];
        for (int i = 0; i < n; i++) pthread_create(&list[i], NULL, work, (void *)20000L);
        for (int i = 0; i < n; i++) pthread_join(list[i], NULL);
        uint64_t calls;
        struct transect_times times;
        CHECK(transect_count(id_hot, &calls) == 0 && calls == 40000u * (unsigned)n);
        CHECK(transect_get_times(id_outer, &times) == 0 && times.calls == 20000u * (unsigned)n && times.timed == times.calls);
    }
}

static void toggles_while(void (*other)(void)) {
    pthread_t list[8];
    for (long i = 0; i < 4; i++) pthread_create(&list[i], NULL, toggle, (void *)i);
    for (int i = 4; i < 6; i++) pthread_create(&list[i], NULL, work_on, NULL);
    other();
    stop = 1;
    for (int i = 0; i < 6; i++) pthread_join(list[i], NULL);
}
static void rest(void) { usleep(500000); }

static volatile int signals;
static void on_alarm(int signal) {
    (void)signal;
    signals++;
    if (outer(5) != 33) abort();
    if (signals & 1) transect_activate(id_hot);
    else transect_deactivate(id_hot);
    transect_set_handler(id_hot, signals & 2 ? TRANSECT_HANDLER_COUNT : TRANSECT_HANDLER_TIME);
}
static void with_signals(void) {
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int round = 0; round < 200; round++) {
        work((void *)2000L);
        if (round % 4 == 0) {
            CHECK(transect_restore(&id_outer, 1, NULL) == 1);
            CHECK(transect_install(&id_outer, 1, NULL) == 1);
            transect_activate(id_outer);
        }
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    CHECK(signals > 10);
}

static void forks(void) {
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            stop = 1;
            alarm(20);
            transect_activate(id_hot);
            transect_set_handler(id_hot, TRANSECT_HANDLER_COUNT);
            transect_reset(id_hot);
            for (long j = 0; j < 1000; j++)
                if (hot(j, 1) != 3 * j + 1) _exit(2);
            uint64_t calls;
            if (transect_count(id_hot, &calls) != 0 || calls != 1000) _exit(3);
            if (transect_deactivate(id_hot) != 0 || transect_is_active(id_hot) != 0) _exit(4);
            hot(1, 1);
            if (transect_count(id_hot, &calls) != 0 || calls != 1000) _exit(5);
            if (transect_restore_all() < 2) _exit(6);
            transect_id id;
            if (transect_find_function((void *)hot, &id) != 0 || transect_install(&id, 1, NULL) != 1) _exit(7);
            if (hot(1, 1) != 4) _exit(8);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "child %d: %#x\n", i, status);
            exit(1);
        }
    }
}

static void jumps(void) {
    for (int i = 0; i < 200; i++) {
        if (setjmp(jump) == 0) {
            leaves(i % 50);
            abort();
        }
        work((void *)10L);
    }
}

static const char *plugin;
static int future(const struct transect_site *site, void *data) {
    ++*(int *)data;
    return site->event == TRANSECT_ENTRY ? TRANSECT_ACTIVATE : TRANSECT_IGNORE;
}
static int found;
static void *toggle_all(void *seed) {
    unsigned x = (unsigned)(uintptr_t)seed + 1;
    while (!stop) {
        x = x * 1103515245 + 12345;
        uint32_t count = transect_site_count();
        int status = x & 1 ? transect_activate((x >> 8) % count) : transect_deactivate((x >> 8) % count);
        if (status != 0 && status != TRANSECT_ERROR_GONE && status != TRANSECT_ERROR_NOT_INSTALLED) {
            fprintf(stderr, "toggle: %s\n", transect_strerror(status));
            exit(1);
        }
    }
    return NULL;
}
static void dlcloses(void) {
    char pattern[200];
    snprintf(pattern, sizeof pattern, "%s:plugin_*", strrchr(plugin, '/') + 1);
    CHECK(transect_discover(pattern, TRANSECT_FUTURE_OBJECTS, future, &found) == 0);
    pthread_t list[4];
    for (long i = 0; i < 4; i++) pthread_create(&list[i], NULL, toggle_all, (void *)i);
    for (int i = 0; i < 200; i++) {
        void *handle = dlopen(plugin, RTLD_NOW);
        CHECK(handle != NULL);
        long (*one)(long) = (long (*)(long))dlsym(handle, "plugin_one");
        long (*two)(long) = (long (*)(long))dlsym(handle, "plugin_two");
        int *constructed = dlsym(handle, "plugin_constructed");
        CHECK(one && two && *constructed == 42);
        for (long j = 0; j < 50; j++) CHECK(one(j) == j + 1 && two(j) == (j + 1) * 2);
        CHECK(dlclose(handle) == 0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(list[i], NULL);
    CHECK(found >= 2 * 200);
    CHECK(transect_site_count() < 100); /* an object that returns to its place gets its ids back */
}

static volatile sig_atomic_t traps;
static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    traps++;
}
static void own_sigtrap(void) {
    struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, now;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    __asm__ volatile("int3");
    CHECK(traps == 1);
    for (int i = 0; i < 50; i++) {
        CHECK(transect_restore(&id_hot, 1, NULL) == 1 && transect_install(&id_hot, 1, NULL) == 1);
        transect_activate(id_hot);
        usleep(1000);
    }
    __asm__ volatile("int3");
    CHECK(traps == 2);
    CHECK(sigaction(SIGTRAP, NULL, &now) == 0);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "mdwe") == 0 && prctl(65, 1, 0, 0, 0) != 0) {
        puts("NOT RUN: PR_SET_MDWE is unknown to this kernel");
        return 0;
    }
    BEGIN();
    transect_handler both;
    struct transect_handler_options h = { .tier = TRANSECT_TIER_VECTOR, .enter = enter, .exit = leave };
    CHECK(transect_register_handler(&h, &both) == 0);
    id_hot = install((void *)hot, TRANSECT_HANDLER_COUNT);
    id_outer = install((void *)outer, both);
    id_leaves = install((void *)leaves, both);
    transect_activate(id_leaves);
    if (strcmp(what, "threads") == 0 || strcmp(what, "mdwe") == 0) threads();
    else if (strcmp(what, "toggles") == 0) toggles_while(rest);
    else if (strcmp(what, "signals") == 0) with_signals();
    else if (strcmp(what, "forks") == 0) toggles_while(forks);
    else if (strcmp(what, "mdwe-forks") == 0) toggles_while(forks);
    else if (strcmp(what, "jumps") == 0) toggles_while(jumps);
    else if (strcmp(what, "sigtrap") == 0) toggles_while(own_sigtrap);
    else if (strcmp(what, "dlclose") == 0) {
        plugin = arguments[2];
        dlcloses();
    } else return 3;
    puts("ok");
    return 0;
}
