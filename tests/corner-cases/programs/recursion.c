/* Recursion through the boundary to a depth of 100,000, on the main stack and on a thread's. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
long descend(long depth);
long step_down(long depth) { return descend(depth) + 1; }
static void *on_thread(void *argument) {
    for (int i = 0; i < 3; i++) *(long *)argument += descend(100000);
    return 0;
}
int main(int argc, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    if (argc == 1 && limit.rlim_cur < (256 << 20)) {
        limit.rlim_cur = 256 << 20;
        if (setrlimit(RLIMIT_STACK, &limit) == 0) execl(argv[0], argv[0], "again", (char *)0);
    }
    printf("%ld\n", descend(100000));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 20);
    pthread_t thread;
    long sum = 0;
    pthread_create(&thread, &attributes, on_thread, &sum);
    pthread_join(thread, 0);
    printf("%ld\n", sum);
    return 0;
}
