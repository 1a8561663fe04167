// Asks another process for each price over a pipe, one at a time. The price itself is worked out in no time.
#include "../own_clock.h"
#include <sys/wait.h>

static int questions[2], answers[2];

static void answer_prices(void) {
    uint64_t article;
    while (read(questions[0], &article, sizeof article) == (ssize_t)sizeof article) {
        uint64_t price = scrambled(article) % 1000;
        if (write(answers[1], &price, sizeof price) != (ssize_t)sizeof price)
            break;
    }
}

__attribute__((noinline)) static uint64_t ask_price(uint64_t article) {
    uint64_t price;
    if (write(questions[1], &article, sizeof article) != (ssize_t)sizeof article) // culprit
        abort();
    if (read(answers[0], &price, sizeof price) != (ssize_t)sizeof price) // culprit
        abort();
    return price;
}

int main(int argc, char **argv) {
    long articles = amount(argc, argv, 100000);
    double begin = seconds(), asking = 0, sum = 0;
    if (pipe(questions) || pipe(answers))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(questions[1]);
        close(answers[0]);
        answer_prices();
        _exit(0);
    }
    close(questions[0]);
    close(answers[1]);
    for (long i = 0; i < articles; i++) {
        double start = seconds();
        uint64_t price = ask_price((uint64_t)i);
        asking += seconds() - start;
        for (int k = 0; k < 200; k++)
            price = scrambled(price);
        sum += (double)(price % 1000);
    }
    close(questions[1]);
    waitpid(child, NULL, 0);
    return tell(asking, begin, sum);
}
