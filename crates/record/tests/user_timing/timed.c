// Times itself: when `work` and the functions that it calls began and ended is kept in a shared file, in ticks of the time
// stamp counter, each thread's calls in a ring of its own. argv: file, threads, kind.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { work_, first_, second_, third_ };
struct call { volatile uint64_t which, begin, end, pad; };
#define CALLS 65535
struct line { volatile uint64_t count, pad[3]; struct call calls[CALLS]; };
static struct line *lines;
static const char *kind;
static int threads;
static volatile unsigned sink;

__attribute__((noinline)) void spin(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) { sink += i; }
}
__attribute__((noinline)) void first(unsigned rounds) { spin(rounds); __asm__ volatile(""); }
__attribute__((noinline)) void second(unsigned rounds) { spin(rounds / 2); spin(rounds / 2); __asm__ volatile(""); }
__attribute__((noinline)) void third(void) { struct timespec t = {0, 300000}; nanosleep(&t, 0); __asm__ volatile(""); }
__attribute__((noinline)) unsigned tiny(unsigned a) { __asm__ volatile(""); return a * 3 + 1; }
__attribute__((noinline)) unsigned deep(unsigned n) { if (n == 0) { spin(20000); return 1; } unsigned r = deep(n - 1) + 1; __asm__ volatile(""); return r; }
static jmp_buf out;
__attribute__((noinline)) void jumps(void) { spin(20000); longjmp(out, 1); }

#define TIMED(field, called) do { \
    struct call *c = &l->calls[l->count++ % CALLS]; \
    c->begin = ~0ull; c->end = 0; c->which = field##_; c->begin = __rdtsc(); called; c->end = __rdtsc(); } while (0)

__attribute__((noinline)) void work(struct line *l) {
    TIMED(first, first(30000));
    TIMED(second, second(10000));
    if (kind[0] == 's') TIMED(third, third());
    if (kind[0] == 't') for (int i = 0; i < 20000; i++) sink += tiny(i);
    if (kind[0] == 'd') sink += deep(50);
    if (kind[0] == 'j' && setjmp(out) == 0) jumps();
}

// Entered once.
__attribute__((noinline)) void forever(struct line *l) {
    for (;;) {
        TIMED(work, work(l));
        // The same functions from elsewhere.
        first(15000);
        second(2000);
        if (kind[0] == 'f') {
            pid_t pid = fork();
            if (pid == 0) { work(l + threads); _exit(0); }
            waitpid(pid, 0, 0);
        }
    }
}

static void *thread(void *l) { forever(l); return 0; }

static void on_signal(int n) { (void)n; first(500); }

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct line) * 8)) return 3;
    lines = mmap(0, sizeof(struct line) * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    kind = argv[3];
    threads = atoi(argv[2]);
    if (kind[0] == 'g') {
        struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &a, 0);
        ualarm(2000, 1000);
    }
    if (kind[0] == 'b') { // blocked in a long call all the time
        char c;
        return (int)read(0, &c, 1);
    }
    for (int i = 1; i < threads; i++) { pthread_t t; pthread_create(&t, 0, thread, lines + i); }
    forever(lines);
}
