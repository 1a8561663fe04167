// Each name is asked of two servers in turn. The first never answers, so that each question waits for its time-out.
#include "../own_clock.h"
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

static int dead[2], alive[2];

static void *name_server(void *nothing) {
    uint64_t name;
    while (read(alive[1], &name, sizeof name) == (ssize_t)sizeof name) {
        name = scrambled(name);
        if (write(alive[1], &name, sizeof name) < 0)
            break;
    }
    return nothing;
}

__attribute__((noinline)) static int ask_server(int server, uint64_t name, uint64_t *address) {
    struct pollfd wait = {.fd = server, .events = POLLIN};
    if (write(server, &name, sizeof name) < 0 && server != dead[0])
        exit(1);
    if (poll(&wait, 1, 15) <= 0) // culprit
        return 0;
    return read(server, address, sizeof *address) == (ssize_t)sizeof *address;
}

__attribute__((noinline)) static uint64_t resolve(uint64_t name, double *lost) {
    uint64_t address = 0;
    double start = seconds();
    int answered = ask_server(dead[0], name, &address); // culprit
    *lost += seconds() - start;
    if (!answered)
        ask_server(alive[0], name, &address);
    return address;
}

int main(int argc, char **argv) {
    long names = amount(argc, argv, 90);
    double begin = seconds(), lost = 0, sum = 0;
    // Nobody reads the far end of the first. It has room for all questions.
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, dead) || socketpair(AF_UNIX, SOCK_STREAM, 0, alive))
        return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, name_server, NULL);
    for (long i = 0; i < names; i++) {
        uint64_t name = (uint64_t)i;
        for (int k = 0; k < 150000; k++)
            name = scrambled(name);
        sum += (double)(resolve(name, &lost) % 100);
    }
    return tell(lost, begin, sum);
}
