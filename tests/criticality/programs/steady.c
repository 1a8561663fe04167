// Some threads work all the time and the others wait on a futex, until a signal ends the program. Prints `ready` first.
// Usage: steady WORKERS WAITERS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused) {
    for (volatile long i = 0;; i++)
        ;
    return unused;
}

static void *wait_for_ever(void *unused) {
    pthread_mutex_lock(&never);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    pthread_mutex_lock(&never);
    pthread_t thread;
    for (int i = 0; i < atoi(argv[1]); i++)
        pthread_create(&thread, NULL, work, NULL);
    for (int i = 0; i < atoi(argv[2]); i++)
        pthread_create(&thread, NULL, wait_for_ever, NULL);
    usleep(100000);
    printf("ready\n");
    fflush(stdout);
    for (;;)
        pause();
}
