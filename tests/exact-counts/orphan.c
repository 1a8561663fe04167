/* Goes on after its recorder was killed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *run(void *argument) { return argument; }
int main(void) {
    puts("ready");
    fflush(stdout);
    getchar();
    pthread_t thread;
    for (int i = 0; i < 20; i++)
        if (!pthread_create(&thread, 0, run, 0)) pthread_join(thread, 0);
    if (fork() == 0) execl("/bin/echo", "echo", "child", (char *)0), _exit(1);
    wait(0);
    if (system("/bin/echo command")) puts("system failed");
    puts("end");
    return 0;
}
