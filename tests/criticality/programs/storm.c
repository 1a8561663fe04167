// Threads and processes that come and go: some exec, some exit by signal, some fork from a thread, all compete for two
// locks and hop between CPUs. Prints the time that all of it ran, from switch to switch: rusage also has the time
// between a wake-up and the switch on an idle CPU, which a busy machine makes long. Usage: storm ROUNDS
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void spin(int rounds) {
    for (volatile int i = 0; i < rounds * 1000; i++)
        ;
}

static void hop(int to) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(to % (int)sysconf(_SC_NPROCESSORS_ONLN), &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *work(void *argument) {
    int number = (int)(long)argument;
    for (int i = 0; i < 20; i++) {
        hop(number + i);
        pthread_mutex_lock(&lock[i % 2]);
        spin(30);
        if (i % 5 == 0)
            usleep(100);
        pthread_mutex_unlock(&lock[i % 2]);
    }
    if (number % 3 == 0) {
        pid_t child = fork();
        if (child == 0) {
            spin(200);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return NULL;
}

/* Counts the time of this thread and of all that comes of it; -1 if the kernel refuses. */
static int open_clock(void) {
    struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE, .size = sizeof clock, .config = PERF_COUNT_SW_TASK_CLOCK, .inherit = 1};
    return (int)syscall(SYS_perf_event_open, &clock, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    int clock = open_clock();
    if (clock < 0)
        return perror("perf_event_open"), 1;
    for (int round = 0; round < rounds; round++) {
        pid_t children[4];
        for (int i = 0; i < 4; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                if (i == 0)
                    execl("/bin/true", "true", NULL);
                if (i == 1) {
                    spin(300);
                    raise(SIGKILL);
                }
                pthread_t thread[6];
                for (int k = 0; k < 6; k++)
                    pthread_create(&thread[k], NULL, work, (void *)(long)k);
                if (i == 2) {
                    usleep(2000);
                    execl("/bin/echo", "echo", "-n", NULL); // while its threads work
                }
                for (int k = 0; k < 6; k++)
                    pthread_join(thread[k], NULL);
                _exit(0);
            }
        }
        pthread_t thread[3];
        for (int k = 0; k < 3; k++)
            pthread_create(&thread[k], NULL, work, (void *)(long)k);
        for (int k = 0; k < 3; k++)
            pthread_join(thread[k], NULL);
        for (int i = 0; i < 4; i++)
            waitpid(children[i], NULL, 0);
    }
    long long ran;
    if (read(clock, &ran, sizeof ran) != sizeof ran)
        return perror("read"), 1;
    printf("ran %.6f\n", ran * 1e-9);
}
