// Writes a table cell by cell to a file that has no buffer.
#include "../own_clock.h"

enum { COLUMNS = 8 };
struct row {
    long cells[COLUMNS];
};

static struct row make_row(long number) {
    struct row row;
    for (int i = 0; i < COLUMNS; i++)
        row.cells[i] = (long)(scrambled((uint64_t)(number * COLUMNS + i)) % 100);
    return row;
}

__attribute__((noinline)) static void print_row(FILE *file, const struct row *row) {
    for (int i = 0; i < COLUMNS; i++) {
        long cell = row->cells[i];
        fputc((int)('0' + cell / 10), file);      // culprit
        fputc((int)('0' + cell % 10), file);      // culprit
        fputc(i + 1 < COLUMNS ? ',' : '\n', file); // culprit
    }
}

int main(int argc, char **argv) {
    long rows = amount(argc, argv, 120000);
    double begin = seconds(), printing = 0, sum = 0;
    FILE *file = scratch_file();
    setvbuf(file, NULL, _IONBF, 0);
    for (long i = 0; i < rows; i++) {
        struct row row = make_row(i);
        for (int k = 0; k < COLUMNS; k++)
            sum += (double)row.cells[k];
        double start = seconds();
        print_row(file, &row);
        printing += seconds() - start;
    }
    fclose(file);
    return tell(printing, begin, sum);
}
