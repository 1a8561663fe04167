// A client asks a server in the same process over a socket. The server's look-up waits for something slow.
#include "../own_clock.h"
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

static int ends[2];
static double looking;

__attribute__((noinline)) static uint64_t look_up(uint64_t key) {
    double start = seconds();
    poll(NULL, 0, 5); // culprit
    looking += seconds() - start;
    return scrambled(key);
}

static void *server(void *nothing) {
    uint64_t key;
    while (recv(ends[1], &key, sizeof key, 0) == (ssize_t)sizeof key) {
        uint64_t value = look_up(key);
        if (send(ends[1], &value, sizeof value, 0) < 0)
            break;
    }
    return nothing;
}

static uint64_t ask(uint64_t key) {
    uint64_t value;
    if (send(ends[0], &key, sizeof key, 0) < 0 || recv(ends[0], &value, sizeof value, 0) < 0)
        abort();
    return value;
}

int main(int argc, char **argv) {
    long requests = amount(argc, argv, 400);
    double begin = seconds(), sum = 0;
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
        return 1;
    pthread_create(&thread, NULL, server, NULL);
    for (long i = 0; i < requests; i++) {
        uint64_t value = ask((uint64_t)i);
        for (int k = 0; k < 60000; k++)
            value = scrambled(value);
        sum += (double)(value % 1000);
    }
    shutdown(ends[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    return tell(looking, begin, sum);
}
