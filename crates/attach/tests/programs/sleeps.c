// Threads that sleep in the kernel in many ways, and count how often they were woken for no reason of theirs.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static atomic_ulong woken[16];
static atomic_long slept_wrong;
static int silent[2];
static void *sleeper(void *argument) {
    long how = (long)argument;
    sigset_t none, usr2;
    sigemptyset(&none);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    int ep = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, got;
    epoll_ctl(ep, EPOLL_CTL_ADD, silent[0], &event);
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct timeval long_time = {3600, 0};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
    int sem = semget(IPC_PRIVATE, 1, 0600);
    sem_t private;
    sem_init(&private, 0, 0);
    char c;
    for (;;) {
        switch (how) {
        case 0: epoll_wait(ep, &got, 1, -1); break;
        case 1: { struct pollfd p = {silent[0], POLLIN, 0}; poll(&p, 1, -1); break; }
        case 2: read(silent[0], &c, 1); break;
        case 3: sigsuspend(&none); break;
        case 4: pause(); break;
        case 5: sem_wait(&private); break;
        case 6: recv(pair[0], &c, 1, 0); break;
        case 7: { struct sembuf b = {0, -1, 0}; semop(sem, &b, 1); break; }
        case 8: { fd_set s; FD_ZERO(&s); FD_SET(silent[0], &s); select(silent[0] + 1, &s, 0, 0, 0); break; }
        case 9: sigwaitinfo(&usr2, 0); break;
        case 10: {
            // The whole time must be slept, and not much more.
            struct timespec a, b, t = {0, 30000000};
            clock_gettime(CLOCK_MONOTONIC, &a);
            if (nanosleep(&t, 0)) atomic_fetch_add(&woken[10], 1);
            clock_gettime(CLOCK_MONOTONIC, &b);
            if ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 30000000) atomic_fetch_add(&slept_wrong, 1);
            continue;
        }
        }
        atomic_fetch_add(&woken[how], 1);
    }
    return 0;
}
// Whether no thread but the caller has yet to come to its sleep.
static int all_asleep(void) {
    int awake = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], state = 'R';
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *stat = task->d_name[0] == '.' ? 0 : fopen(path, "r");
        if (!stat) continue;
        fscanf(stat, "%*d (%*[^)]) %c", &state);
        awake += state != 'S';
        fclose(stat);
    }
    closedir(tasks);
    return awake <= 1;
}
int main(void) {
    pipe(silent);
    setvbuf(stdout, 0, _IOLBF, 0);
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, 0);
    for (long i = 0; i < 11; i++) {
        pthread_t t;
        pthread_create(&t, 0, sleeper, (void *)i);
    }
    do usleep(50000); while (!all_asleep());
    printf("ready\n");
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < 11; i++) printf("%lu ", woken[i]);
        printf("%ld\n", slept_wrong);
    }
    return 0;
}
