/* Limits that a program sets itself hold for it alone: it has as much address space as without us, and reads what it has set. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void *on_thread(void *argument) { return argument; }

/* How many MiB can be mapped now, and are unmapped again; what a loader has mapped, a few, is left out by dividing. */
static long room(void) {
    static void *maps[4096];
    long n = 0;
    while (n < 4096 && (maps[n] = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) n++;
    for (long i = 0; i < n; i++) munmap(maps[i], MIB);
    return n;
}

static void tell(const char *when) {
    struct rlimit limit, same;
    getrlimit(RLIMIT_AS, &limit);
    prlimit(0, RLIMIT_AS, 0, &same);
    printf("%s: %ld of %ld MiB, about %ld free%s\n", when, (long)(limit.rlim_cur >> 20), (long)(limit.rlim_max >> 20),
           (room() + 12) / 16 * 16, memcmp(&limit, &same, sizeof limit) ? ", and prlimit differs" : "");
    fflush(stdout);
}

static void in_child(char *const argv[], const char *what, const char *program) {
    pid_t pid = fork();
    if (pid == 0) {
        tell("forked");
        if (argv) execl(program, program, what, (char *)0);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s: %d\n", what, WEXITSTATUS(status));
    fflush(stdout);
}

int main(int argc, char *argv[]) {
    if (argc > 1 && !strcmp(argv[1], "tell")) {
        tell("executed");
        return 3;
    }
    pthread_t thread;
    struct rlimit soft = {256 * MIB, RLIM_INFINITY}, both = {192 * MIB, 224 * MIB}, wrong = {2 * MIB, MIB}, old;
    setrlimit(RLIMIT_AS, &soft);
    tell("soft");
    int failed = pthread_create(&thread, 0, on_thread, 0);
    if (!failed) pthread_join(thread, 0);
    printf("thread: %d\n", failed);
    printf("prlimit: %d", prlimit(getpid(), RLIMIT_AS, &both, &old));
    printf(", was %ld, %d\n", (long)(old.rlim_cur >> 20), old.rlim_max == RLIM_INFINITY);
    tell("both");
    printf("wrong: %d", setrlimit(RLIMIT_AS, &wrong));
    printf(" %s\n", strerror(errno));
    tell("the same");
    in_child(argv, "tell", "/proc/self/exe");
    if (argc > 1) in_child(argv, "tell", argv[1]);
    soft.rlim_cur = 128 * MIB, soft.rlim_max = 224 * MIB;
    setrlimit(RLIMIT_AS, &soft);
    tell("lowered");
    getrlimit(RLIMIT_NOFILE, &old);
    printf("others are read: %d\n", old.rlim_cur > 8);
    return 0;
}
