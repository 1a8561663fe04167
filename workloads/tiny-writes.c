/* Writes a file in pieces of 16 bytes and reads it back in pieces of 16 bytes: a system call for each.
 * Fix: map the file and work in memory.
 *
 * usage: tiny-writes [--fixed] [thousands of pieces, default 1000]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 16 };
static void make_piece(unsigned char *piece, long i) {
    for (int k = 0; k < PIECE; k++) piece[k] = (unsigned char)(i * 31 + k);
}
static unsigned long sum_piece(unsigned long sum, const unsigned char *piece) {
    for (int k = 0; k < PIECE; k++) sum = sum * 31 + piece[k];
    return sum;
}
int main(int argc, char **argv) {
    int fixed = 0;
    long pieces = 1000 * 1000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--fixed")) fixed = 1;
        else pieces = atol(argv[i]) * 1000;
    }
    char name[] = "/tmp/tiny-writes-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) { perror(name); return 1; }
    unlink(name);
    unsigned long sum = 0;
    if (fixed) {
        if (ftruncate(fd, pieces * PIECE)) { perror("ftruncate"); return 1; }
        unsigned char *memory = mmap(0, (size_t)pieces * PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) { perror("mmap"); return 1; }
        for (long i = 0; i < pieces; i++) make_piece(memory + i * PIECE, i);
        for (long i = 0; i < pieces; i++) sum = sum_piece(sum, memory + i * PIECE);
    } else {
        unsigned char piece[PIECE];
        for (long i = 0; i < pieces; i++) {
            make_piece(piece, i);
            if (write(fd, piece, PIECE) != PIECE) { perror("write"); return 1; }
        }
        lseek(fd, 0, SEEK_SET);
        for (long i = 0; i < pieces; i++) {
            if (read(fd, piece, PIECE) != PIECE) { perror("read"); return 1; }
            sum = sum_piece(sum, piece);
        }
    }
    printf("%ld pieces, sum %lx\n", pieces, sum);
    if (!fixed) printf("calls: tiny-writes libc.so.6 write %ld\ncalls: tiny-writes libc.so.6 read %ld\n", pieces, pieces);
    return 0;
}
