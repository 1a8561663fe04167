// A producer looks every four milliseconds whether its piece has been taken. Fix: every twentieth of a millisecond.
#include "truth.h"
#include "work.h"
#include <semaphore.h>
#include <stdatomic.h>

enum { PIECES = 200 };
static sem_t ready;
static atomic_int taken;
static int fixed;

__attribute__((noinline)) static void wait_until_taken(int piece) {
    while (atomic_load(&taken) < piece)
        usleep(fixed ? 50 : 4000);
}

static void *consume(void *unused) {
    truth_name("consumer");
    for (int i = 1; i <= PIECES; i++) {
        sem_wait(&ready);
        mixed(i, MILLISECOND / 10);
        atomic_store(&taken, i);
    }
    truth_note();
    return unused;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    sem_init(&ready, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, consume, NULL);
    for (int i = 1; i <= PIECES; i++) {
        mixed(i, MILLISECOND / 2);
        sem_post(&ready);
        wait_until_taken(i);
    }
    pthread_join(thread, NULL);
    truth_print("sleep", "wait_until_taken", "", "sleep-poll", -1);
}
