// Many threads that live for a moment, a few at a time. Usage: short-threads COUNT
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *live(void *argument) {
    for (volatile int i = 0; i < 2000; i++)
        ;
    return argument;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 10000, done = 0;
    pthread_t thread[8];
    while (done < count) {
        int some = count - done < 8 ? count - done : 8;
        for (int i = 0; i < some; i++)
            if (pthread_create(&thread[i], NULL, live, NULL))
                return 1;
        for (int i = 0; i < some; i++)
            pthread_join(thread[i], NULL);
        done += some;
    }
    printf("threads %d\n", done);
}
