// Two processes that talk over a socket, one question at a time: talk SECONDS unix|tcp|udp|queue|semaphore.
#define _GNU_SOURCE
#include "../../../workloads/walk/truth.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <signal.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int t_wait;
static void fail(const char *what) { perror(what), exit(1); }

static void raise_loopback(void) {
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_name = "lo"};
    if (ioctl(any, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        ioctl(any, SIOCSIFFLAGS, &request);
    }
    close(any);
}

static void pair(const char *kind, int ends[2]) {
    if (!strcmp(kind, "unix")) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
            fail("socketpair");
        return;
    }
    raise_loopback();
    int type = strcmp(kind, "tcp") ? SOCK_DGRAM : SOCK_STREAM, one = 1;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int door = socket(AF_INET, type, 0);
    if (bind(door, (struct sockaddr *)&here, sizeof here) || getsockname(door, (struct sockaddr *)&here, &size))
        fail("bind");
    ends[0] = socket(AF_INET, type, 0);
    if (type == SOCK_STREAM) {
        listen(door, 1);
        if (connect(ends[0], (struct sockaddr *)&here, size))
            fail("connect");
        ends[1] = accept(door, NULL, NULL);
        setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        close(door);
    } else {
        struct sockaddr_in there;
        connect(ends[0], (struct sockaddr *)&here, size);
        getsockname(ends[0], (struct sockaddr *)&there, &size);
        connect(door, (struct sockaddr *)&there, size);
        ends[1] = door;
    }
}

__attribute__((noinline)) static void think(void) {
    uint64_t x = truth_mixed(1, 40000);
    __asm__ volatile("" : : "r"(x));
}

static int queues[2], semaphores;
static void change(unsigned short number, short by) {
    struct sembuf operation = {number, by, 0};
    if (semop(semaphores, &operation, 1))
        exit(0);
}

static void answer_all(const char *kind, int end) {
    truth_name("answerer");
    struct {
        long type;
        char text[64];
    } message;
    char text[64];
    for (;;) {
        if (!strcmp(kind, "queue")) {
            if (msgrcv(queues[0], &message, sizeof message.text, 0, 0) < 0)
                _exit(0);
        } else if (!strcmp(kind, "semaphore"))
            change(0, -1);
        else if (recv(end, text, sizeof text, 0) <= 0)
            _exit(0);
        think();
        if (!strcmp(kind, "queue")) {
            if (msgsnd(queues[1], &message, sizeof message.text, 0) < 0)
                _exit(0);
        } else if (!strcmp(kind, "semaphore"))
            change(1, 1);
        else if (send(end, text, sizeof text, MSG_NOSIGNAL) <= 0)
            _exit(0);
    }
}

__attribute__((noinline)) static void await_reply(int end) {
    char text[64];
    if (recv(end, text, sizeof text, 0) <= 0)
        fail("recv");
}
__attribute__((noinline)) static void await_message(int end) {
    struct {
        long type;
        char text[64];
    } message;
    if (msgrcv(end, &message, sizeof message.text, 0, 0) < 0)
        fail("msgrcv");
}
__attribute__((noinline)) static void await_semaphore(int end) { change((unsigned short)end, -1); }

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    const char *kind = argc > 2 ? argv[2] : "unix";
    int ends[2] = {-1, -1};
    struct {
        long type;
        char text[64];
    } message = {.type = 1};
    char text[64] = "question";
    void (*await)(int) = await_reply;
    const char *name = "await_reply";
    if (!strcmp(kind, "queue")) {
        queues[0] = msgget(IPC_PRIVATE, 0600), queues[1] = msgget(IPC_PRIVATE, 0600);
        await = await_message, name = "await_message", ends[0] = queues[1];
    } else if (!strcmp(kind, "semaphore")) {
        semaphores = semget(IPC_PRIVATE, 2, 0600);
        await = await_semaphore, name = "await_semaphore", ends[0] = 1;
    } else
        pair(kind, ends);
    t_wait = truth_function(name);
    pid_t child = fork();
    if (child == 0)
        answer_all(kind, ends[1]);
    for (; truth_running(); truth.operations++) {
        if (!strcmp(kind, "queue"))
            msgsnd(queues[0], &message, sizeof message.text, 0);
        else if (!strcmp(kind, "semaphore"))
            change(0, 1);
        else if (send(ends[0], text, sizeof text, 0) < 0)
            fail("send");
        TRUTH_TIMED(t_wait, await(ends[0]));
    }
    truth_print();
    if (!strcmp(kind, "queue"))
        msgctl(queues[0], IPC_RMID, NULL), msgctl(queues[1], IPC_RMID, NULL);
    else if (!strcmp(kind, "semaphore"))
        semctl(semaphores, 0, IPC_RMID);
    else {
        shutdown(ends[0], SHUT_RDWR);
        if (!strcmp(kind, "udp"))
            kill(child, 9);
    }
    waitpid(child, NULL, 0);
}
