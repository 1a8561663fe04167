/* Calls through its linkage table as often as it is told to, and says how often. Lines of input: `calls N` in each thread, `more N`
   in a new thread each, `first N` of a function never called before, `fork N` in a child, `later N` by an object loaded then,
   `go` and `stop`: without end, counted in a file. `signal N`: as `calls`, interrupted by a timer whose handler calls, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

long counted_step(long x);
long counted_first(long x);

enum { THREADS = 4 };
static long wanted;
static atomic_long *made; /* per thread, in a file */
static atomic_int endless;
static atomic_long by_handler;
static pthread_barrier_t begin, end;

static void calls(long n, atomic_long *count) {
    volatile long sum = 0;
    volatile double root = 2;
    for (long i = 0; i < n; i++) {
        sum += counted_step(i);
        root += cbrt(root);
        if (count)
            atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
    }
}

static void *worker(void *at) {
    long number = (long)at;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (wanted < 0)
            while (atomic_load(&endless))
                calls(1000, &made[number]);
        else
            calls(wanted, NULL);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void *once(void *n) {
    calls((long)n, NULL);
    return NULL;
}

static void handler(int signal) {
    (void)signal;
    counted_step(1);
    atomic_fetch_add(&by_handler, 1);
}

int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (argc < 2 || file < 0 || ftruncate(file, 4096))
        return 2;
    made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_barrier_init(&begin, 0, THREADS + 1);
    pthread_barrier_init(&end, 0, THREADS + 1);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, (void *)i);
    }
    calls(1, NULL); /* binds them */
    char line[80], word[80];
    long n = 0;
    printf("ready\n"), fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        n = 0;
        long done = 0;
        sscanf(line, "%79s %ld", word, &n);
        if (!strcmp(word, "calls") || !strcmp(word, "signal")) {
            struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
            atomic_store(&by_handler, 0);
            if (word[0] == 's') {
                signal(SIGALRM, handler);
                setitimer(ITIMER_REAL, &every, 0);
            }
            wanted = n;
            pthread_barrier_wait(&begin);
            pthread_barrier_wait(&end);
            setitimer(ITIMER_REAL, &never, 0);
            done = n * THREADS + atomic_load(&by_handler);
        } else if (!strcmp(word, "more")) {
            pthread_t threads[16];
            for (int i = 0; i < 16; i++)
                pthread_create(&threads[i], 0, once, (void *)n);
            for (int i = 0; i < 16; i++)
                pthread_join(threads[i], 0);
            done = 16 * n;
        } else if (!strcmp(word, "first")) {
            volatile long sum = 0;
            for (long i = 0; i < n; i++)
                sum += counted_first(i);
            done = n;
        } else if (!strcmp(word, "fork")) {
            pid_t child = fork();
            if (!child) {
                calls(n, NULL);
                _exit(7);
            }
            int status = 0;
            waitpid(child, &status, 0);
            done = WIFEXITED(status) ? WEXITSTATUS(status) : -status;
        } else if (!strcmp(word, "later")) {
            char path[4096];
            snprintf(path, sizeof path, "%s/liblater.so", argv[2]);
            void *library = dlopen(path, RTLD_NOW);
            long (*later)(long) = library ? (long (*)(long))dlsym(library, "later") : NULL;
            usleep(300000);
            done = later ? (later(n), n) : -1;
            if (library)
                dlclose(library);
        } else if (!strcmp(word, "go")) {
            wanted = -1;
            atomic_store(&endless, 1);
            pthread_barrier_wait(&begin);
        } else if (!strcmp(word, "stop")) {
            atomic_store(&endless, 0);
            pthread_barrier_wait(&end);
            for (int i = 0; i < THREADS; i++)
                done += atomic_load(&made[i]);
        }
        printf("%ld\n", done), fflush(stdout);
    }
    return 3;
}
