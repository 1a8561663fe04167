// Hands each turn to another process by a signal and waits for the signal that it is done.
#include "hclock.h"
#include <signal.h>
#include <sys/wait.h>
static pid_t other; static sigset_t turn;
__attribute__((noinline)) static void hand_over(void) {
    IN;
    siginfo_t info;
    kill(other, SIGUSR1); // HERE
    sigwaitinfo(&turn, &info); // HERE
    OUT;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long turns = argc > 1 ? atol(argv[1]) : 130000; uint64_t x = 1;
    sigemptyset(&turn); sigaddset(&turn, SIGUSR1); sigprocmask(SIG_BLOCK, &turn, NULL);
    pid_t me = getpid();
    if ((other = fork()) == 0) { siginfo_t i; for (;;) { sigwaitinfo(&turn, &i); kill(me, SIGUSR1); } }
    for (long i = 0; i < turns; i++) { hand_over(); for (int k = 0; k < 200; k++) x = mixed(x); }
    kill(other, SIGKILL); wait(NULL);
    printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
