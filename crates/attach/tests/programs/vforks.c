// Makes vfork children that end at once, one after the other; its status is their number.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int number = atoi(argv[argc - 1]), ended = 0, status;
    for (int i = 0; i < number; i++) {
        pid_t child = vfork();
        if (child == 0) _exit(7);
        ended += waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    return ended;
}
