// Asks another process for each word over a message queue and waits for its answer.
#include "hclock.h"
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/wait.h>
static mqd_t to, from;
__attribute__((noinline)) static uint64_t ask_worker(uint64_t x) {
    IN;
    if (mq_send(to, (char *)&x, 8, 0)) abort(); // HERE
    if (mq_receive(from, (char *)&x, 8, NULL) != 8) abort(); // HERE
    OUT;
    return x;
}
int main(int argc, char **argv) {
    CLOCK_INIT; long n = argc > 1 ? atol(argv[1]) : 50000; struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = 8}; char q[2][40]; uint64_t x = 1;
    for (int i = 0; i < 2; i++) snprintf(q[i], 40, "/held%d.%d", i, (int)getpid());
    to = mq_open(q[0], O_CREAT | O_RDWR, 0600, &a); from = mq_open(q[1], O_CREAT | O_RDWR, 0600, &a);
    if (to == (mqd_t)-1 || from == (mqd_t)-1) return 1;
    mq_unlink(q[0]); mq_unlink(q[1]);
    pid_t p = fork(); if (!p) for (;;) { mq_receive(to, (char *)&x, 8, NULL); x = mixed(x); mq_send(from, (char *)&x, 8, 0); }
    for (long i = 0; i < n; i++) { for (int k = 0; k < 200; k++) x = mixed(x); x = ask_worker(x); }
    kill(p, SIGKILL); wait(NULL); printf("%d\n", (int)(x & 7)); CLOCK_SAY;
}
