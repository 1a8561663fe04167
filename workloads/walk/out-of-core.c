// Sums an array in a file that is larger than the memory it may use: each chunk is mapped, read once and thrown out of
// the page cache, so that the next pass faults it in again. Fix: a chunk is used for all passes while it is there.
#include "truth.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { CHUNK = 4 << 20, CHUNKS = 8, PASSES = 4 };
static int file, t_sum;

static volatile uint64_t sink;

__attribute__((noinline)) static void sum_chunk(const uint64_t *numbers) {
    uint64_t sum = 0;
    for (size_t i = 0; i < CHUNK / sizeof *numbers; i += 64)
        sum += truth_mixed(numbers[i], 10);
    sink += sum;
}

__attribute__((noinline)) static void visit(unsigned chunk) {
    off_t at = (off_t)chunk * CHUNK;
    void *there = mmap(NULL, CHUNK, PROT_READ, MAP_SHARED, file, at);
    if (there == MAP_FAILED)
        perror("mmap"), exit(1);
    madvise(there, CHUNK, MADV_RANDOM);
    for (int pass = 0; pass < (truth.fixed ? PASSES : 1); pass++, truth.operations++)
        TRUTH_TIMED(t_sum, sum_chunk(there));
    munmap(there, CHUNK);
    posix_fadvise(file, at, CHUNK, POSIX_FADV_DONTNEED);
}

int main(int argc, char **argv) {
    truth_begin(argc, argv);
    t_sum = truth_function("sum_chunk");
    char path[300];
    snprintf(path, sizeof path, "%s/out-of-core-%d", truth.folder, (int)getpid());
    file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    char *block = malloc(CHUNK);
    memset(block, 7, CHUNK);
    for (int i = 0; i < CHUNKS; i++)
        if (file < 0 || write(file, block, CHUNK) != CHUNK)
            return perror(path), 1;
    fdatasync(file);
    unlink(path);
    // Writing the file is not the program's work.
    truth_start(truth.end - truth.start);
    for (unsigned chunk = 0; truth_running(); chunk = (chunk + 1) % CHUNKS)
        visit(chunk);
    truth_print();
}
