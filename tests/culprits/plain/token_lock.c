// Sessions share a token. Whoever finds it too old asks for a new one, which takes long, with the lock held.
#include "../own_clock.h"
#include <pthread.h>

enum { SESSIONS = 3, USES = 2 };
static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t token;
static int uses_left;
static long requests;
static double asking;

/* Stands for a server far away. */
static uint64_t ask_server(uint64_t old) {
    usleep(4000); // culprit
    return scrambled(old + 1);
}

__attribute__((noinline)) static uint64_t take_token(void) {
    pthread_mutex_lock(&token_lock); // culprit
    if (uses_left-- == 0) {
        double start = seconds();
        token = ask_server(token); // culprit
        asking += seconds() - start;
        uses_left = USES - 1;
    }
    uint64_t mine = token;
    pthread_mutex_unlock(&token_lock);
    return mine;
}

__attribute__((noinline)) static uint64_t answer_request(uint64_t token, long number) {
    uint64_t state = token + (uint64_t)number;
    for (int i = 0; i < 50000; i++)
        state = scrambled(state);
    return state;
}

static void *session(void *sum) {
    for (long i = 0; i < requests; i++)
        *(uint64_t *)sum += answer_request(take_token(), i) % 10;
    return NULL;
}

int main(int argc, char **argv) {
    requests = amount(argc, argv, 400);
    double begin = seconds();
    pthread_t threads[SESSIONS];
    uint64_t sums[SESSIONS] = {0};
    for (int i = 0; i < SESSIONS; i++)
        pthread_create(&threads[i], NULL, session, &sums[i]);
    for (int i = 0; i < SESSIONS; i++)
        pthread_join(threads[i], NULL);
    return tell(asking, begin, (double)(sums[0] + sums[1] + sums[2]));
}
