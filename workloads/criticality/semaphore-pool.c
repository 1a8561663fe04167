// Four clients share a pool of connections that has only one. Fix: two.
#include "truth.h"
#include "work.h"
#include <semaphore.h>

enum { CLIENTS = 4, QUERIES = 70 };
static sem_t connections;

__attribute__((noinline)) static uint64_t run_query(uint64_t x) { return mixed(x, 4 * MILLISECOND); }

static void *client(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "client-%d", (int)(intptr_t)argument);
    truth_name(name);
    uint64_t x = (uintptr_t)argument;
    for (int i = 0; i < QUERIES; i++) {
        x = mixed(x, MILLISECOND / 5);
        sem_wait(&connections);
        x = run_query(x);
        sem_post(&connections);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    sem_init(&connections, 0, truth_begin(argc, argv) ? 2 : 1);
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, client, (void *)(intptr_t)i);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    truth_print("semaphore", "run_query", "connections", "client", 2);
}
