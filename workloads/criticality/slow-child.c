// Every picture is filtered by a program that is started for it and waited for. Fix: the filter takes no time.
#include "truth.h"
#include "work.h"
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;
enum { PICTURES = 40 };

__attribute__((noinline)) static int filter_picture(const char *number) { return mixed(atoi(number), 15 * MILLISECOND) == 0; }

__attribute__((noinline)) static void run_filter(char *self, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    char *arguments[] = {self, "--filter", text, NULL};
    pid_t child;
    int status;
    if (posix_spawn(&child, self, NULL, NULL, arguments, environ) || waitpid(child, &status, 0) != child || status)
        abort();
}

int main(int argc, char **argv) {
    int fixed = truth_begin(argc, argv);
    const char *number = truth_option(argc, argv, "--filter", NULL);
    if (number)
        return filter_picture(number);
    for (int i = 0; i < PICTURES; i++) {
        mixed(i, 3 * MILLISECOND);
        if (!fixed)
            run_filter("/proc/self/exe", i);
    }
    truth_print("child", "filter_picture", "", "exe", -1);
}
