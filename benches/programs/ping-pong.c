// Pairs of threads that wake each other by a futex or a pipe. Prints the time of one block + wake + switch, ns, the number
// of blocks, and how many transitions (a block or a wake) there were in a second. Usage: ping-pong futex|pipe one|two|all
// ROUNDS; one: both threads of a pair on one CPU; two: each on its own; all: one pair on each CPU.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 64 };
struct pair {
    _Alignas(64) atomic_int turn;
    int to[2][2], cpu[2];
};
struct side {
    struct pair *pair;
    int number;
};
static struct pair pairs[PAIRS];
static int rounds, by_pipe;
static pthread_barrier_t ready;

static void *play(void *argument) {
    struct side *side = argument;
    struct pair *p = side->pair;
    int me = side->number;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(p->cpu[me], &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_barrier_wait(&ready);
    char byte = 0;
    for (int i = 0; i < rounds; i++) {
        if (by_pipe) {
            if ((me || i) && read(p->to[me][0], &byte, 1) != 1)
                abort();
            if (write(p->to[!me][1], &byte, 1) != 1)
                abort();
            continue;
        }
        while (atomic_load(&p->turn) != me)
            syscall(SYS_futex, &p->turn, FUTEX_WAIT_PRIVATE, !me, NULL);
        atomic_store(&p->turn, !me);
        syscall(SYS_futex, &p->turn, FUTEX_WAKE_PRIVATE, 1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int cpu[PAIRS], cpus = 0;
    for (int i = 0; i < CPU_SETSIZE && cpus < PAIRS; i++)
        if (CPU_ISSET(i, &allowed))
            cpu[cpus++] = i;
    if (argc < 4 || (strcmp(argv[2], "two") == 0 && cpus < 2))
        return fprintf(stderr, "usage: ping-pong futex|pipe one|two|all ROUNDS\n"), 2;
    by_pipe = strcmp(argv[1], "pipe") == 0, rounds = atoi(argv[3]);
    int count = strcmp(argv[2], "all") == 0 ? cpus : 1, apart = strcmp(argv[2], "two") == 0;
    static struct side side[PAIRS][2];
    pthread_t thread[PAIRS][2];
    pthread_barrier_init(&ready, NULL, 2 * count + 1);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < 2; i++) {
            pairs[k].cpu[i] = cpu[apart ? i : k];
            if (pipe(pairs[k].to[i]))
                return 1;
            side[k][i] = (struct side){&pairs[k], i};
            pthread_create(&thread[k][i], NULL, play, &side[k][i]);
        }
    struct timespec begin, end;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    pthread_barrier_wait(&ready);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < 2; i++)
            pthread_join(thread[k][i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    getrusage(RUSAGE_SELF, &after);
    double ns = (end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec;
    long blocks = after.ru_nvcsw - before.ru_nvcsw;
    printf("%.2f %ld %.0f\n", ns * count / blocks, blocks, 2 * blocks / (ns * 1e-9));
}
