// Three threads stamp pages under a lock that is made of the futex system call itself, and keep it for long.
#include "../own_clock.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static atomic_int stamp_lock;
static uint64_t stamps[256];
static long pages;
static double held;

static uint64_t worked(uint64_t state, long rounds) {
    for (long i = 0; i < rounds; i++)
        state = scrambled(state + (uint64_t)i);
    return state;
}

__attribute__((noinline)) static void enter(atomic_int *lock) {
    int was = 0;
    if (atomic_compare_exchange_strong(lock, &was, 1))
        return;
    while (atomic_exchange(lock, 2) != 0)
        syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0); // culprit
}

__attribute__((noinline)) static void leave(atomic_int *lock) {
    if (atomic_exchange(lock, 0) == 2)
        syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

__attribute__((noinline)) static void stamp_page(uint64_t page) {
    enter(&stamp_lock); // culprit
    double start = seconds();
    stamps[page & 255] = worked(page, 300000); // culprit
    held += seconds() - start;
    leave(&stamp_lock);
}

static void *printer(void *number) {
    uint64_t page = (uint64_t)(intptr_t)number;
    for (long i = 0; i < pages; i++) {
        page = worked(page, 60000);
        stamp_page(page);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pages = amount(argc, argv, 350);
    double begin = seconds();
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, printer, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return tell(held, begin, (double)(stamps[9] % 1000));
}
