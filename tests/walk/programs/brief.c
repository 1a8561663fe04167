// Lives for fifty milliseconds, says so on both streams, and ends with the status that it is told: brief [STATUS [MS]].
#include "../../../workloads/walk/truth.h"
#include <signal.h>

int main(int argc, char **argv) {
    int status = argc > 1 ? atoi(argv[1]) : 0, milliseconds = argc > 2 ? atoi(argv[2]) : 50;
    uint64_t end = truth_now() + (uint64_t)milliseconds * 1000000u, x = 1;
    while (truth_now() < end)
        x = truth_mixed(x, 1000);
    printf("output %d\n", x != 0);
    fprintf(stderr, "complaint\n");
    if (status >= 128) {
        fflush(stdout);
        kill(getpid(), status - 128);
    }
    return status;
}
