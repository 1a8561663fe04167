// Reads pages of a file here and there past the page cache, one at a time.
#include "../own_clock.h"
#include <fcntl.h>

enum { PAGE = 4096, PAGES = 2048 };

__attribute__((noinline)) static void fetch_page(int file, unsigned char *page, uint64_t number) {
    if (pread(file, page, PAGE, (off_t)(number % PAGES) * PAGE) != PAGE) // culprit
        exit(1);
}

__attribute__((noinline)) static uint64_t weigh_page(const unsigned char *page) {
    uint64_t sum = 0;
    for (int i = 0; i < PAGE; i++)
        sum = sum * 31 + page[i];
    return sum;
}

int main(int argc, char **argv) {
    long reads = amount(argc, argv, 40000);
    char path[] = "/var/tmp/culprit-XXXXXX";
    int file = mkstemp(path);
    unsigned char *page = aligned_alloc(PAGE, PAGE);
    for (int i = 0; i < PAGES; i++) {
        memset(page, i, PAGE);
        if (write(file, page, PAGE) != PAGE)
            return 1;
    }
    fsync(file);
    int direct = open(path, O_RDONLY | O_DIRECT);
    unlink(path);
    if (direct < 0)
        return perror(path), 1;
    double begin = seconds(), reading = 0, sum = 0;
    for (long i = 0; i < reads; i++) {
        double start = seconds();
        fetch_page(direct, page, scrambled((uint64_t)i));
        reading += seconds() - start;
        sum += (double)(weigh_page(page) % 100);
    }
    return tell(reading, begin, sum);
}
