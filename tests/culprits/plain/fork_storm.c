// Runs a hook for each file: a process of its own, that does next to nothing.
#include "../own_clock.h"
#include <sys/wait.h>

static double hooking;
static long failed;

__attribute__((noinline)) static void run_hook(const char *name) {
    pid_t child = fork(); // culprit
    if (child == 0) {
        execl("/bin/true", "true", name, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) // culprit
        failed++;
}

static uint64_t digest_file(long number) {
    uint64_t state = (uint64_t)number;
    for (int i = 0; i < 30000; i++)
        state = scrambled(state + 1);
    return state;
}

int main(int argc, char **argv) {
    long files = amount(argc, argv, 2500);
    double begin = seconds(), sum = 0;
    for (long i = 0; i < files; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%ld", i);
        sum += (double)(digest_file(i) % 1000);
        double start = seconds();
        run_hook(name);
        hooking += seconds() - start;
    }
    if (failed)
        return 1;
    return tell(hooking, begin, sum);
}
