// A server that gives each request to a child of its own: forking-server SECONDS.
#include "../../../workloads/walk/truth.h"
#include <sys/wait.h>

static int t_fork;
__attribute__((noinline)) static void serve_request(void) {
    uint64_t x = truth_mixed(1, 4000000);
    __asm__ volatile("" : : "r"(x));
    _exit(0);
}
__attribute__((noinline)) static void accept_request(void) {
    pid_t child = fork();
    if (child == 0)
        serve_request();
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    t_fork = truth_function("accept_request");
    for (; truth_running(); truth.operations++)
        TRUTH_TIMED(t_fork, accept_request());
    truth_print();
}
