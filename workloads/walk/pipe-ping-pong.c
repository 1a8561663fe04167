// Two processes that hand one number to and fro through pipes: the asker waits for the answer of each. Fix: a hundred
// questions at once.
#include "truth.h"
#include <sys/wait.h>

static int t_answer;

__attribute__((noinline)) static void compute_answer(uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        numbers[i] = truth_mixed(numbers[i], 20000);
}

__attribute__((noinline)) static void reply(int out, const uint64_t *numbers, size_t size) {
    if (write(out, numbers, size) != (ssize_t)size)
        _exit(0);
}

static void answerer(int in, int out) {
    truth_name("answerer");
    uint64_t numbers[512];
    ssize_t got;
    while ((got = read(in, numbers, sizeof numbers)) > 0) {
        compute_answer(numbers, (size_t)got / 8);
        reply(out, numbers, (size_t)got);
    }
    _exit(0);
}

__attribute__((noinline)) static void await_answer(int in, uint64_t *numbers, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t part = read(in, (char *)numbers + got, size - got);
        if (part <= 0)
            exit(1);
        got += (size_t)part;
    }
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    t_answer = truth_function("await_answer");
    int there[2], back[2];
    if (pipe(there) || pipe(back))
        return perror("pipe"), 1;
    pid_t child = fork();
    if (child == 0) {
        close(there[1]), close(back[0]);
        answerer(there[0], back[1]);
    }
    close(there[0]), close(back[1]);
    size_t count = truth.fixed ? 100 : 1;
    uint64_t numbers[2][100] = {0};
    int ahead = 0;
    for (unsigned round = 0; truth_running(); round++) {
        if (write(there[1], numbers[round % 2], count * 8) != (ssize_t)count * 8)
            break;
        ahead++;
        // With many at once the next questions are asked before the answers to the last are in.
        if (ahead > truth.fixed) {
            TRUTH_TIMED(t_answer, await_answer(back[0], numbers[(round + 1) % 2], count * 8));
            ahead--;
        }
        truth.operations += count;
    }
    close(there[1]);
    while (ahead-- > 0)
        await_answer(back[0], numbers[0], count * 8);
    waitpid(child, NULL, 0);
    truth_print();
}
