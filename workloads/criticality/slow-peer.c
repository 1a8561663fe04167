// One question goes to four servers at once and is answered when all have answered; one of them takes long. Fix: all
// are alike. The servers are `--serve PORT`, another process that is started before (the first port; three follow).
#include "truth.h"
#include "work.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { SERVERS = 4, QUESTIONS = 100, SLOW = 2 };
static pthread_barrier_t asked, answered;
static int port;

static void serve_one(int number, int client, int fixed) {
    char question[64];
    while (recv(client, question, sizeof question, MSG_WAITALL) == sizeof question) {
        usleep(number == SLOW && !fixed ? 8000 : 500);
        if (send(client, question, sizeof question, MSG_NOSIGNAL) < 0)
            break;
    }
    close(client);
}

struct server {
    int number, listener, fixed;
};
static void *serve(void *argument) {
    struct server *s = argument;
    for (;;)
        serve_one(s->number, accept(s->listener, NULL, NULL), s->fixed);
    return NULL;
}

static int serve_all(int fixed) {
    struct server server[SERVERS];
    pthread_t thread;
    for (int i = 0; i < SERVERS; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port + i), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4))
            return perror("bind"), 1;
        server[i] = (struct server){i, listener, fixed};
        pthread_create(&thread, NULL, serve, &server[i]);
    }
    printf("ready\n");
    fflush(stdout);
    pause();
    return 0;
}

__attribute__((noinline)) static void ask_server(int connection, char *text, size_t size) {
    if (send(connection, text, size, 0) != (ssize_t)size || recv(connection, text, size, MSG_WAITALL) != (ssize_t)size)
        abort();
}

static void *client(void *argument) {
    int number = (int)(intptr_t)argument, on = 1;
    char name[16], text[64] = "what?";
    snprintf(name, sizeof name, "client-%d", number);
    truth_name(name);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port + number), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&address, sizeof address))
        perror("connect"), exit(1);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (int i = 0; i < QUESTIONS; i++) {
        pthread_barrier_wait(&asked);
        ask_server(connection, text, sizeof text);
        pthread_barrier_wait(&answered);
        mixed(i, MILLISECOND / 4);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    int fixed = truth_begin(argc, argv);
    const char *first = truth_option(argc, argv, "--serve", NULL);
    port = atoi(first ? first : truth_option(argc, argv, "--port", "7411"));
    if (first)
        return serve_all(fixed);
    pthread_barrier_init(&asked, NULL, SERVERS);
    pthread_barrier_init(&answered, NULL, SERVERS);
    pthread_t threads[SERVERS];
    for (int i = 0; i < SERVERS; i++)
        pthread_create(&threads[i], NULL, client, (void *)(intptr_t)i);
    for (int i = 0; i < SERVERS; i++)
        pthread_join(threads[i], NULL);
    char peer[32];
    snprintf(peer, sizeof peer, "127.0.0.1:%d", port + SLOW);
    truth_print("socket", "ask_server", peer, "client-2", -1);
}
