// Two threads look up records all over a mapped file that isn't in memory. Fix: the file is read ahead.
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
    char path[256];
    snprintf(path, sizeof path, "%s/records-%d.data", truth_option(argc, argv, "--folder", "/var/tmp"), getpid());
    int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    static char block[1 << 20];
    for (size_t i = 0; i < PAGES * PAGE / sizeof block; i++)
        if (write(file, block, sizeof block) != sizeof block)
            return perror(path), 1;
    unlink(path);
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    records = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    int fixed = truth_begin(argc, argv);
    if (fixed)
        for (size_t i = 0; i < PAGES * PAGE / sizeof block; i++)
            if (pread(file, block, sizeof block, i * sizeof block) != sizeof block)
                return 1;
    if (!fixed)
        madvise(records, PAGES * PAGE, MADV_RANDOM);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, look_up, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    truth_print("page-fault", "read_record", strrchr(path, '/') + 1, "", 0);
}
