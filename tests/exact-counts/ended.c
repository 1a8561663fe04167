/* Threads that go on calling after their last round of destructors has begun. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_key_t key;
static void destroy(void *round) {
    getppid();
    pthread_setspecific(key, (char *)round + 1);
}
static void *run(void *argument) {
    pthread_setspecific(key, (void *)1);
    return argument;
}
int main(void) {
    pthread_key_create(&key, destroy);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, run, 0)) abort();
        pthread_join(thread, 0);
    }
    return 0;
}
