// Whoever reads the document waits for its lock, whose holder waits for the lock of the disk, which is held for long.
#include "../own_clock.h"
#include <atomic>
#include <mutex>
#include <semaphore>
#include <thread>

static std::mutex doc_lock, disk_lock, title_lock;
static std::atomic<bool> closed;
static std::binary_semaphore typed(0), saving(0);
static uint64_t document = 1, archive = 1, title = 1;
static double waiting;

static uint64_t worked(uint64_t state, long rounds) {
    for (long i = 0; i < rounds; i++)
        state = scrambled(state + (uint64_t)i);
    return state;
}

__attribute__((noinline)) static void pack_archive() {
    std::lock_guard disk(disk_lock);
    archive = worked(archive, 4000000); // culprit
}

__attribute__((noinline)) static void save_doc() {
    std::lock_guard doc(doc_lock);
    saving.release();
    std::lock_guard disk(disk_lock); // culprit
    document = worked(document, 10000);
}

__attribute__((noinline)) static uint64_t read_doc() {
    double start = seconds();
    std::lock_guard doc(doc_lock); // culprit
    waiting += seconds() - start;
    return document;
}

static void archiver() {
    while (!closed) {
        pack_archive();
        usleep(200);
    }
}

static void editor() {
    for (typed.acquire(); !closed; typed.acquire())
        save_doc();
}

// This lock is never waited for.
static uint64_t read_title() {
    std::lock_guard guard(title_lock);
    return title++;
}

int main(int argc, char **argv) {
    long reads = amount(argc, argv, 110);
    double begin = seconds();
    std::thread packing(archiver), editing(editor);
    uint64_t sum = 0;
    for (long i = 0; i < reads; i++) {
        for (int k = 0; k < 200; k++)
            sum += read_title();
        // It goes on as soon as the editor has begun to save.
        typed.release();
        saving.acquire();
        sum = worked(sum + read_doc(), 15000);
    }
    double took = waiting;
    closed = true;
    typed.release();
    packing.join();
    editing.join();
    return tell(took, begin, (double)(sum % 1000));
}
