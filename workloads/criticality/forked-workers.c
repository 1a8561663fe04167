// Four worker processes append to one journal in shared memory under its lock. Fix: appending takes half the time.
#include "truth.h"
#include "work.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WORKERS = 4, ENTRIES = 60 };
struct journal {
    pthread_mutex_t lock;
    uint64_t text[64];
};

__attribute__((noinline)) static void append_entry(struct journal *j, uint64_t x, int fixed) {
    for (int i = 0; i < 64; i++)
        j->text[i] = mixed(j->text[i] + x, (fixed ? 2 : 4) * MILLISECOND / 64);
}

static void work(struct journal *j, int number, int fixed) {
    char name[16];
    snprintf(name, sizeof name, "journal-%d", number);
    truth_name(name);
    for (int i = 0; i < ENTRIES; i++) {
        uint64_t x = mixed(i, MILLISECOND / 4);
        pthread_mutex_lock(&j->lock);
        append_entry(j, x, fixed);
        pthread_mutex_unlock(&j->lock);
    }
}

int main(int argc, char **argv) {
    int fixed = truth_begin(argc, argv);
    struct journal *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&j->lock, &shared);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0) {
            work(j, i, fixed);
            _exit(0);
        }
    for (int i = 0; i < WORKERS; i++)
        wait(NULL);
    truth_print("mutex", "append_entry", "", "journal", 2);
}
