// Processes take turns at a shared file. Each holds its lock while it works out what to write.
#include "../own_clock.h"
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PROCESSES = 3 };
struct shared {
    double held;
    uint64_t state;
};

__attribute__((noinline)) static uint64_t plan_route(uint64_t state) {
    for (int i = 0; i < 300000; i++)
        state = scrambled(state + 1); // culprit
    return state;
}

__attribute__((noinline)) static void update_route(int file, struct shared *shared) {
    flock(file, LOCK_EX); // culprit
    double start = seconds();
    shared->state = plan_route(shared->state); // culprit
    if (pwrite(file, &shared->state, sizeof shared->state, 0) < 0)
        abort();
    shared->held += seconds() - start;
    flock(file, LOCK_UN);
}

static uint64_t drive(uint64_t seed) {
    for (int i = 0; i < 20000; i++)
        seed = scrambled(seed + 1);
    return seed;
}

int main(int argc, char **argv) {
    long turns = amount(argc, argv, 550);
    double begin = seconds();
    char path[64];
    snprintf(path, sizeof path, "/var/tmp/culprit-route-%d", getpid());
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            // Each its own open file: a lock belongs to that.
            FILE *file = fopen(path, "a");
            uint64_t seed = (uint64_t)i;
            for (long turn = 0; file && turn < turns; turn++) {
                seed = drive(seed);
                update_route(fileno(file), shared);
            }
            _exit(!file);
        }
    int failed = 0, status;
    while (wait(&status) > 0)
        failed |= status;
    unlink(path);
    return tell(shared->held, begin, (double)(shared->state % 1000)) | (failed != 0);
}
