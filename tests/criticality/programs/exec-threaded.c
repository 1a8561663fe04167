// A thread that isn't the main one replaces the program while others work and wait; the new one does the same once more.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *work(void *argument) {
    for (int i = 0; i < 60; i++) {
        for (volatile int k = 0; k < 400000; k++)
            ;
        usleep(500);
    }
    return argument;
}

static char **arguments;
static void *replace(void *unused) {
    usleep(20000);
    execl("/proc/self/exe", arguments[0], "again", NULL);
    perror("exec");
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread[3], replacer;
    arguments = argv;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    if (argc == 1)
        pthread_create(&replacer, NULL, replace, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    printf("%s\n", argc == 1 ? "not replaced" : "replaced");
    return argc == 1;
}
