/* A preload library (linked with libtransect.a): probes every function of the program and its libraries that can be
 * probed, lets four threads toggle all of them at random, and at exit restores the text and compares it with the files.
 *
 * STRESS_PATTERN  what to probe ("*")
 * STRESS_OUTPUT   where the result goes: one line, "ok SITES TOGGLES CALLS" or "bad: …"
 * STRESS_EXITS    0: no handlers with exits
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <transect.h>
#include <unistd.h>

enum { THREADS = 4 };
static pthread_t threads[THREADS];
static atomic_int stop;
static atomic_ulong toggles, handled;
static int64_t sites;
static pid_t owner;
static char output[4096];

static void say(const char *format, ...) {
    char line[4096];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    int file = output[0] ? open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : 2;
    if (write(file, line, (size_t)n) < 0) _exit(99);
    if (file != 2) close(file);
}

static int each(const struct transect_site *site, void *data) {
    (void)site;
    (void)data;
    return TRANSECT_INSTALL;
}

static uint64_t entered(transect_id id, struct transect_registers *r, void *vectors, void *data) {
    (void)vectors;
    (void)data;
    atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
    return id ^ r->return_address;
}

static void left(transect_id id, struct transect_registers *r, void *vectors, uint64_t cookie, void *data) {
    (void)vectors;
    (void)data;
    /* The cookie is right unless the handler was swapped in between. */
    if (cookie != 0 && cookie != (id ^ r->return_address)) atomic_fetch_add_explicit((atomic_ulong *)data, 1, memory_order_relaxed);
}

static void *toggler(void *seed) {
    uint64_t x = (uint64_t)(uintptr_t)seed * 0x9E3779B97F4A7C15u + 1;
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGTRAP);
    sigdelset(&all, SIGURG);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    unsigned long n = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (int i = 0; i < 256; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            transect_id id = (transect_id)((x >> 20) % (uint64_t)sites);
            if (x & 1) transect_activate(id);
            else transect_deactivate(id);
        }
        n += 256;
        if ((n & 0xffff) == 0) {
            struct timespec pause = { 0, 1000000 };
            nanosleep(&pause, NULL);
        }
    }
    atomic_fetch_add(&toggles, n);
    return NULL;
}

static void start_threads(void) {
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, toggler, (void *)(i + 1 + (long)getpid())) != 0) say("bad: pthread_create\n");
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STRESS_OUTPUT");
    if (path) snprintf(output, sizeof output, "%s", path);
    unsetenv("LD_PRELOAD");
    owner = getpid();
    if (transect_init(TRANSECT_ABI_VERSION, sizeof(struct transect_options), NULL) != 0) {
        say("bad: %s\n", transect_last_error());
        return;
    }
    const char *pattern = getenv("STRESS_PATTERN");
    sites = transect_discover(pattern ? pattern : "*,!*stress*.so:*", TRANSECT_NO_LINES | TRANSECT_FUTURE_OBJECTS, each, NULL);
    if (sites <= 0) {
        say("bad: no sites: %s\n", transect_last_error());
        return;
    }
    sites = transect_site_count();
    static atomic_ulong wrong;
    struct transect_handler_options vector = { .tier = TRANSECT_TIER_VECTOR, .enter = entered, .exit = left, .data = &wrong };
    struct transect_handler_options full = { .tier = TRANSECT_TIER_FULL, .enter = entered, .exit = left, .data = &wrong };
    struct transect_handler_options entry = { .tier = TRANSECT_TIER_VECTOR, .enter = entered };
    transect_handler h[3];
    transect_register_handler(&vector, &h[0]);
    transect_register_handler(&full, &h[1]);
    transect_register_handler(&entry, &h[2]);
    int exits = !getenv("STRESS_EXITS") || atoi(getenv("STRESS_EXITS"));
    for (transect_id id = 0; id < (transect_id)sites; id++) {
        switch (id % 8) {
        case 0: case 1: if (exits) transect_set_handler(id, TRANSECT_HANDLER_TIME); break;
        case 2: if (exits) transect_set_handler(id, h[0]); break;
        case 3: if (exits && id % 64 == 3) transect_set_handler(id, h[1]); break;
        case 4: transect_set_handler(id, h[2]); break;
        default: break;
        }
    }
    start_threads();
}

static char *read_file(const char *path, size_t *size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) return NULL;
    char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *size = (size_t)status.st_size;
    return bytes == MAP_FAILED ? NULL : bytes;
}

static int compare(struct dl_phdr_info *info, size_t unused, void *data) {
    (void)unused;
    int *bad = data;
    const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
    if (path[0] != '/') return 0;
    size_t size;
    char *bytes = read_file(path, &size);
    if (!bytes) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || p->p_offset + p->p_filesz > size) continue;
        const char *memory = (const char *)(info->dlpi_addr + p->p_vaddr);
        if (memcmp(memory, bytes + p->p_offset, p->p_filesz) == 0) continue;
        size_t at = 0;
        while (memory[at] == bytes[p->p_offset + at]) at++;
        say("bad: %s differs at %#lx\n", path, (unsigned long)(p->p_vaddr + at));
        ++*bad;
    }
    munmap(bytes, size);
    return 0;
}

__attribute__((destructor)) static void end(void) {
    if (getpid() != owner || sites <= 0) return;
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    uint64_t calls = 0, n;
    for (transect_id id = 0; id < transect_site_count(); id++)
        if (transect_count(id, &n) == 0) calls += n;
    uint32_t installed = 0;
    struct transect_site site;
    for (transect_id id = 0; id < transect_site_count(); id++)
        if (transect_get_site(id, &site) == 0 && site.state == TRANSECT_INSTALLED) installed++;
    int64_t restored = transect_restore_all();
    if (restored != installed) say("bad: restored %ld of %u: %s\n", (long)restored, installed, transect_last_error());
    int bad = 0;
    dl_iterate_phdr(compare, &bad);
    if (!bad) say("ok %u of %ld sites, %lu toggles, %lu counted, %lu handled\n", installed, (long)sites, (unsigned long)toggles, (unsigned long)calls, (unsigned long)handled);
}
