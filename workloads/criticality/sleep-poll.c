// A consumer looks every four milliseconds whether the next piece is there. Fix: it looks every twentieth of one.
#include "truth.h"
#include "work.h"
#include <stdatomic.h>

enum { PIECES = 200 };
static atomic_int ready, taken;
static int fixed;

__attribute__((noinline)) static void wait_until_taken(int piece) {
    while (atomic_load(&taken) < piece)
        usleep(fixed ? 50 : 4000);
}

static void *consume(void *unused) {
    truth_name("consumer");
    for (int i = 1; i <= PIECES; i++) {
        while (atomic_load(&ready) < i)
            usleep(50);
        mixed(i, MILLISECOND / 10);
        atomic_store(&taken, i);
    }
    truth_note();
    return unused;
}

int main(int argc, char **argv) {
    fixed = truth_begin(argc, argv);
    pthread_t thread;
    pthread_create(&thread, NULL, consume, NULL);
    for (int i = 1; i <= PIECES; i++) {
        mixed(i, MILLISECOND / 2);
        atomic_store(&ready, i);
        wait_until_taken(i);
    }
    pthread_join(thread, NULL);
    truth_print("sleep", "wait_until_taken", "", "sleep-poll", -1);
}
