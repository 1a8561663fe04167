// The first thread ends, another goes on.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *other(void *unused) {
    char line[64];
    while (read(0, line, sizeof line) > 0) write(1, "here\n", 5);
    exit(0);
}
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, other, 0);
    write(1, "ready\n", 6);
    pthread_exit(0);
}
