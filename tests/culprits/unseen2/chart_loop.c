// One thread serves all clients from an epoll loop. Now and then somebody asks for a chart, and all others wait.
#include "../own_clock.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { CLIENTS = 5 };
static long requests;
static int sides[CLIENTS][2];
static double drawing;

__attribute__((noinline)) static uint64_t draw_chart(uint64_t seed) {
    for (long i = 0; i < 2500000; i++)
        seed = scrambled(seed ^ (uint64_t)i); // culprit
    return seed;
}

__attribute__((noinline)) static uint64_t look_up(uint64_t key) { return scrambled(key) & 255; }

static void serve(int poller) {
    int open_clients = CLIENTS;
    while (open_clients) {
        struct epoll_event events[CLIENTS];
        int count = epoll_wait(poller, events, CLIENTS, -1);
        for (int i = 0; i < count; i++) {
            uint64_t request, reply;
            int client = events[i].data.fd;
            if (read(client, &request, sizeof request) != (ssize_t)sizeof request) {
                epoll_ctl(poller, EPOLL_CTL_DEL, client, NULL);
                open_clients--;
                continue;
            }
            double start = seconds();
            int chart = request % 50 == 0;
            reply = chart ? draw_chart(request) : look_up(request);
            if (chart)
                drawing += seconds() - start;
            if (write(client, &reply, sizeof reply) != (ssize_t)sizeof reply)
                exit(1);
        }
    }
}

static void *client(void *number) {
    int side = sides[(intptr_t)number][1];
    for (long i = 1; i <= requests; i++) {
        uint64_t request = (uint64_t)(i + 10 * (intptr_t)number), reply;
        if (write(side, &request, sizeof request) < 0 || read(side, &reply, sizeof reply) < 0)
            exit(1);
    }
    close(side);
    return NULL;
}

int main(int argc, char **argv) {
    requests = amount(argc, argv, 1600);
    double begin = seconds();
    int poller = epoll_create1(0);
    pthread_t threads[CLIENTS];
    for (intptr_t i = 0; i < CLIENTS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sides[i]))
            return 1;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = sides[i][0]};
        epoll_ctl(poller, EPOLL_CTL_ADD, sides[i][0], &event);
        pthread_create(&threads[i], NULL, client, (void *)i);
    }
    serve(poller);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    return tell(drawing, begin, 0);
}
