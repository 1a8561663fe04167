// Three threads hand a turn around with semaphores.
#include "hclock.h"
#include <pthread.h>
#include <semaphore.h>
static sem_t turn[3]; static long laps = 50000; static uint64_t board;
__attribute__((noinline)) static void take_turn(int who) {
    IN;
    sem_wait(&turn[who]); // HERE
    board = mixed(board);
    sem_post(&turn[(who + 1) % 3]); // HERE
    if (!who) OUT;
}
static void *player(void *p) { for (long i = 0; i < laps; i++) take_turn((int)(intptr_t)p); return p; }
int main(int argc, char **argv) {
    CLOCK_INIT; if (argc > 1) laps = atol(argv[1]);
    pthread_t t[3]; for (int i = 0; i < 3; i++) sem_init(&turn[i], 0, i == 0);
    for (intptr_t i = 0; i < 3; i++) pthread_create(&t[i], NULL, player, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    printf("%d\n", (int)(board & 7)); CLOCK_SAY;
}
