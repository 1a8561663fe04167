// Three processes ring up baskets in shared memory. Its mutex is held while the basket is priced.
#include "../own_clock.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct till {
    pthread_mutex_t lock;
    uint64_t total;
    double held;
};
static struct till *till;

static uint64_t worked(uint64_t state, long rounds) {
    for (long i = 0; i < rounds; i++)
        state = scrambled(state + (uint64_t)i);
    return state;
}

__attribute__((noinline)) static void ring_up(uint64_t basket) {
    pthread_mutex_lock(&till->lock); // culprit
    double start = seconds();
    till->total += worked(basket, 400000) % 100; // culprit
    till->held += seconds() - start;
    pthread_mutex_unlock(&till->lock);
}

static void cashier(uint64_t number, long baskets) {
    for (long i = 0; i < baskets; i++) {
        number = worked(number, 60000);
        ring_up(number);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    long baskets = amount(argc, argv, 270);
    double begin = seconds();
    till = mmap(NULL, sizeof *till, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&till->lock, &shared);
    for (uint64_t i = 1; i <= 3; i++)
        if (fork() == 0)
            cashier(i, baskets);
    while (wait(NULL) > 0)
        ;
    return tell(till->held, begin, (double)till->total);
}
