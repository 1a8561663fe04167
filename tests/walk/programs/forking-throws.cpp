// Forks in a function that is timed; the child throws through it a while later, to main, or returns
// through it: forking-throws SECONDS.
#include "clock.h"
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static volatile unsigned long sum;

static void compute(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 1000; i++)
            sum = sum + i;
}

// Near the threshold: their caller is timed for a long time.
__attribute__((noinline)) static void more() { compute(0.00103); }
__attribute__((noinline)) static void less() { compute(0.00097); }

__attribute__((noinline)) static pid_t serve(int number) {
    more();
    less();
    compute(0.002);
    if (number % 8 == 0) {
        pid_t child = fork();
        if (child != 0)
            return child;
        usleep(700000);
        if (number % 16 == 0)
            throw number;
        return -number;
    }
    return 0;
}

int main(int argc, char **argv) {
    std::vector<pid_t> children;
    int wrong = 0;
    double until = now() + (argc > 1 ? atof(argv[1]) : 3);
    for (int number = 0; now() < until; number++) {
        try {
            pid_t child = serve(number);
            if (child < 0)
                _exit(child == -number ? 0 : 1);
            if (child)
                children.push_back(child);
        } catch (int caught) {
            _exit(caught == number ? 0 : 1);
        }
    }
    for (pid_t child : children) {
        int status = 1;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    printf("%zu children, %d wrong\n", children.size(), wrong);
    return wrong != 0;
}
