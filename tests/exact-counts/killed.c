/* Threads call across a boundary until the process is killed; their counters live in a file: killed FILE THREADS. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
long called_often(long x);
long called_rarely(long x);
typedef struct { volatile long often_entered, often_left, rarely_entered, rarely_left, pad[4]; } Counts;
static Counts *counts;
static void *work(void *argument) {
    Counts *own = &counts[(long)argument];
    for (long i = 1;; i++) {
        own->often_entered++;
        called_often(i);
        own->often_left++;
        if (i % 1000 == 0) {
            own->rarely_entered++;
            called_rarely(i);
            own->rarely_left++;
        }
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long threads = atol(argv[2]);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 64 * (long)sizeof(Counts))) return 3;
    counts = mmap(0, 64 * sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_t handle;
    for (long i = 1; i < threads; i++) pthread_create(&handle, 0, work, (void *)i);
    puts("running");
    fflush(stdout);
    work((void *)0);
}
