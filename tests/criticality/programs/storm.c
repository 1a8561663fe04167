// Threads and processes that come and go: some exec, some exit by signal, some fork from a thread, all compete for two
// locks and hop between processors. Prints the processor time of all of it. Usage: storm ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
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
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self), getrusage(RUSAGE_CHILDREN, &children);
    double seconds = 0;
    for (struct rusage *u = &self; u; u = u == &self ? &children : NULL)
        seconds += u->ru_utime.tv_sec + u->ru_stime.tv_sec + (u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
    printf("cpu %.6f\n", seconds);
}
