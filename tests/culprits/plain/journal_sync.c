// Writes a journal, and waits for the disk after each record.
#include "../own_clock.h"

struct record {
    long number;
    uint64_t sum;
    char text[240];
};

static double syncing;

/* A record as if an order had been worked out. */
__attribute__((noinline)) static void make_record(struct record *record, long number) {
    record->number = number;
    uint64_t state = (uint64_t)number;
    for (int i = 0; i < 4000; i++)
        state = scrambled(state + 1);
    snprintf(record->text, sizeof record->text, "order %ld for %llu pieces", number, (unsigned long long)state % 1000);
    record->sum = state;
}

__attribute__((noinline)) static void append_record(int journal, const struct record *record) {
    if (write(journal, record, sizeof *record) != (ssize_t)sizeof *record)
        abort();
    double start = seconds();
    if (fdatasync(journal) != 0) // culprit
        abort();
    syncing += seconds() - start;
}

int main(int argc, char **argv) {
    long records = amount(argc, argv, 1500);
    double begin = seconds(), sum = 0;
    FILE *file = scratch_file();
    for (long i = 0; i < records; i++) {
        struct record record = {0};
        make_record(&record, i);
        append_record(fileno(file), &record);
        sum += (double)(record.sum % 1000);
    }
    fclose(file);
    return tell(syncing, begin, sum);
}
