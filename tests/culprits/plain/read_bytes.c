// Counts the words of a file that it reads one byte at a time.
#include "../own_clock.h"

static void write_text(FILE *file, long size) {
    for (long i = 0; i < size; i++)
        fputc(scrambled((uint64_t)i) % 6 ? 'a' + (int)(scrambled((uint64_t)i) % 26) : ' ', file);
    fflush(file);
    lseek(fileno(file), 0, SEEK_SET);
}

__attribute__((noinline)) static int next_byte(int file) {
    unsigned char byte;
    return read(file, &byte, 1) == 1 ? byte : -1; // culprit
}

struct counts {
    long words, letters[256];
};

__attribute__((noinline)) static void count_words(int file, struct counts *counts) {
    int before = ' ', byte;
    while ((byte = next_byte(file)) >= 0) {
        counts->words += byte != ' ' && before == ' ';
        counts->letters[byte]++;
        before = byte;
    }
}

int main(int argc, char **argv) {
    long size = amount(argc, argv, 6000000);
    double begin = seconds();
    FILE *file = scratch_file();
    write_text(file, size);
    struct counts counts = {0};
    // All but a few nanoseconds a byte of this is in `next_byte`; a clock around it would cost more than that.
    double start = seconds();
    count_words(fileno(file), &counts);
    double reading = seconds() - start;
    fclose(file);
    return tell(reading, begin, (double)(counts.words + counts.letters['e']));
}
