// Forks a process that digests a buffer and sends back the digest, one after the other.
#include "../own_clock.h"
#include <sys/wait.h>

enum { SIZE = 1 << 20 };
static unsigned char buffer[SIZE];

struct answer {
    uint64_t digest;
    double took;
};

static void fill(uint64_t seed) {
    for (size_t i = 0; i < SIZE; i += 64)
        buffer[i] = (unsigned char)scrambled(seed + i);
}

__attribute__((noinline)) static uint64_t digest_buffer(int rounds) {
    uint64_t digest = 0xcbf29ce484222325ULL;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < SIZE; i++)
            digest = (digest ^ buffer[i]) * 0x100000001b3ULL; // culprit
    return digest;
}

static struct answer digest_in_child(void) {
    struct answer answer = {0};
    int pair[2];
    if (pipe(pair))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        double start = seconds();
        answer.digest = digest_buffer(60);
        answer.took = seconds() - start;
        _exit(write(pair[1], &answer, sizeof answer) != (ssize_t)sizeof answer);
    }
    close(pair[1]);
    if (read(pair[0], &answer, sizeof answer) != (ssize_t)sizeof answer)
        exit(1);
    close(pair[0]);
    waitpid(child, NULL, 0);
    return answer;
}

int main(int argc, char **argv) {
    long buffers = amount(argc, argv, 20);
    double begin = seconds(), digesting = 0, sum = 0;
    for (long i = 0; i < buffers; i++) {
        fill((uint64_t)i);
        struct answer answer = digest_in_child();
        digesting += answer.took;
        sum += (double)(answer.digest % 1000);
    }
    return tell(digesting, begin, sum);
}
