// A library whose constructor runs before the program's entry point: the loader takes its time, and may make a child that goes the
// same way.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void early(void) {
    usleep(20000);
    if (getenv("LOADER_FORKS")) {
        unsetenv("LOADER_FORKS");
        pid_t child = fork();
        int status = 0;
        if (child) {
            waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) _exit(99);
        }
    }
}
