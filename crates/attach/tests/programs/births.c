// One thread makes others, as fast as it can, and waits for each.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_long made;

static void *short_lived(void *argument) { return argument; }

static void *maker(void *argument) {
    for (;;) {
        pthread_t thread;
        if (!pthread_create(&thread, 0, short_lived, 0)) {
            pthread_join(thread, 0);
            made++;
        }
    }
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, maker, 0);
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%ld\n", made);
        fflush(stdout);
    }
    return 0;
}
