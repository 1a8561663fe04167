// Two threads look up records all over a mapped file that isn't in memory. Fix: the file is read ahead.
// The file is made before, by a run of its own: --prepare FILE, then --records FILE.
#include "truth.h"
#include "work.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 2, LOOKUPS = 15000, PAGE = 4096 };
static const size_t PAGES = 24576;
static unsigned char *records;

__attribute__((noinline)) static unsigned read_record(size_t number) { return records[number * PAGE] + records[number * PAGE + 64]; }

static void *look_up(void *argument) {
    char name[16];
    snprintf(name, sizeof name, "lookup-%d", (int)(intptr_t)argument);
    truth_name(name);
    uint64_t at = (uintptr_t)argument + 1, sum = 0;
    for (int i = 0; i < LOOKUPS; i++) {
        at = mixed(at + sum, 5 * MICROSECOND);
        sum += read_record((at >> 20) % PAGES);
    }
    truth_note();
    return NULL;
}

int main(int argc, char **argv) {
    const char *prepare = truth_option(argc, argv, "--prepare", NULL), *path = truth_option(argc, argv, "--records", prepare);
    static char block[1 << 20];
    int file = path ? open(path, prepare ? O_CREAT | O_TRUNC | O_RDWR : O_RDONLY, 0600) : -1;
    if (file < 0)
        return perror("--prepare FILE, then --records FILE"), 1;
    if (prepare) {
        for (size_t i = 0; i < PAGES * PAGE / sizeof block; i++)
            if (write(file, block, sizeof block) != sizeof block)
                return perror(path), 1;
        return fsync(file) != 0;
    }
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    int fixed = truth_begin(argc, argv);
    if (fixed)
        for (size_t i = 0; i < PAGES * PAGE / sizeof block; i++)
            if (pread(file, block, sizeof block, i * sizeof block) != sizeof block)
                return 1;
    records = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (!fixed)
        madvise(records, PAGES * PAGE, MADV_RANDOM);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, look_up, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth_print("page-fault", "read_record", "", "", 0);
}
