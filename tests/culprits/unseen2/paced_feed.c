// A reader asks again and again for the next block, which a device model delivers at its own pace: the pace is the culprit, and
// the loop only waits for it.
#include "../own_clock.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_long ready;
static long blocks;
static double paced, sum;

static __attribute__((noinline)) void await_device(void) {
    double begin = seconds();
    usleep(2000);
    paced += seconds() - begin;
}

static void *device(void *unused) {
    for (long block = 1; block <= blocks; block++) {
        await_device();
        atomic_store(&ready, block);
    }
    return unused;
}

static __attribute__((noinline)) void ask_again(long block) {
    while (atomic_load(&ready) < block) {
    }
}

static __attribute__((noinline)) void use_block(long block) {
    for (long i = 0; i < 100000; i++)
        sum += (double)(block ^ i);
}

int main(int argc, char **argv) {
    blocks = amount(argc, argv, 1000);
    double begin = seconds();
    pthread_t thread;
    pthread_create(&thread, NULL, device, NULL);
    for (long block = 1; block <= blocks; block++) {
        ask_again(block);
        use_block(block);
    }
    pthread_join(thread, NULL);
    return tell(paced, begin, sum);
}
