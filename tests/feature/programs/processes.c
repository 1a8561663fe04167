// Parent and child enter regions; each process says its own truth.
#include "truth.h"
#include <stdlib.h>
#include <sys/wait.h>

long entered[16];
static int compress;

__attribute__((noinline)) static void pack(int times) {
    for (int i = 0; i < times; i++) {
        if (compress) { // region 1 {compress}
            ENTERED(1);
            usleep(0);
        }
    }
}

int main(int argc, char **argv) {
    compress = argc > 1 && atoi(argv[1]);
    pack(50);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        entered[1] = 0;
        pack(70);
        say_truth();
        _exit(0);
    }
    waitpid(child, 0, 0);
    pack(30);
    say_truth();
    return 0;
}
