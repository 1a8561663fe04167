// A client sends each request in two small writes, so that the second waits for the acknowledgement of the first.
#include "hclock.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
static void get(int s, char *b, size_t n) { while (n) { ssize_t k = read(s, b, n); if (k <= 0) _exit(0); b += k; n -= k; } }
static void serve(int s) { char h[8], b[120]; for (;;) { get(s, h, 8); get(s, b, 120); if (write(s, b, 16) != 16) _exit(1); } }
__attribute__((noinline)) static int fetch_record(int s, uint64_t key) {
    char head[8], body[120] = "record"; 
    IN;
    memcpy(head, &key, 8);
    if (write(s, head, 8) != 8) abort(); // HERE
    if (write(s, body, 120) != 120) abort(); // HERE
    get(s, body, 16); // HERE
    OUT;
    return body[3];
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long records = argc > 1 ? atol(argv[1]) : 50;
    int l = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    if (bind(l, (void *)&a, n) || listen(l, 1) || getsockname(l, (void *)&a, &n)) return 1;
    if (fork() == 0) serve(accept(l, NULL, NULL));
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, (void *)&a, n)) return 1;
    long sum = 0; uint64_t x = 1;
    for (long i = 0; i < records; i++) { sum += fetch_record(s, i); for (int k = 0; k < 500000; k++) x = mixed(x); }
    close(s); wait(NULL);
    printf("%ld %d\n", sum, (int)(x & 1)); CLOCK_SAY;
}
