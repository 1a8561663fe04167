// One thread sends questions down a pipe, one at a time, and waits for the answer, which another works out. Fix: the
// answer is found in half the time.
#include "truth.h"
#include "work.h"
#include <stdlib.h>

enum { QUESTIONS = 4000 };
static int question[2], answer[2], fixed;

__attribute__((noinline)) static uint64_t look_up(uint64_t x) { return mixed(x, (fixed ? 100 : 200) * MICROSECOND); }

static void *answerer(void *unused) {
    truth_name("answerer");
    uint64_t x;
    while (read(question[0], &x, sizeof x) == sizeof x) {
        x = look_up(x);
        if (write(answer[1], &x, sizeof x) != sizeof x)
            abort();
    }
    truth_note();
    return unused;
}

__attribute__((noinline)) static uint64_t ask(uint64_t x) {
    if (write(question[1], &x, sizeof x) != sizeof x || read(answer[0], &x, sizeof x) != sizeof x)
        abort();
    return x;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    pthread_t thread;
    if (pipe(question) || pipe(answer))
        return perror("pipe"), 1;
    pthread_create(&thread, NULL, answerer, NULL);
    uint64_t x = 1;
    for (int i = 0; i < QUESTIONS; i++)
        x = mixed(ask(x), 5 * MICROSECOND);
    close(question[1]);
    pthread_join(thread, NULL);
    truth_print("pipe", "look_up", "", "answerer", 2);
}
