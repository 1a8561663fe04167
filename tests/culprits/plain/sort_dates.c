// Sorts letters by date with qsort. The comparison reads both dates out of their text each time.
#include "../own_clock.h"

struct letter {
    char date[16];
    uint64_t sender;
};
static double comparing;
static long compared;

static struct letter *make_letters(long count) {
    struct letter *letters = calloc((size_t)count, sizeof *letters);
    for (long i = 0; i < count; i++) {
        uint64_t random = scrambled((uint64_t)i);
        snprintf(letters[i].date, sizeof letters[i].date, "%04d-%02d-%02d", (int)(1900 + random % 120), (int)(1 + random / 120 % 12),
                 (int)(1 + random / 1440 % 28));
        letters[i].sender = random;
    }
    return letters;
}

__attribute__((noinline)) static long day_of(const char *date) {
    int year = 0, month = 0, day = 0;
    sscanf(date, "%d-%d-%d", &year, &month, &day); // culprit
    return (year * 12L + month) * 31 + day;
}

__attribute__((noinline)) static int by_date(const void *a, const void *b) {
    // One comparison in 64 stands for the others.
    int timed = compared++ % 64 == 0;
    double start = timed ? seconds() : 0;
    long first = day_of(((const struct letter *)a)->date), second = day_of(((const struct letter *)b)->date); // culprit
    if (timed)
        comparing += 64 * (seconds() - start);
    return (first > second) - (first < second);
}

int main(int argc, char **argv) {
    long count = amount(argc, argv, 180000);
    double begin = seconds();
    struct letter *letters = make_letters(count);
    qsort(letters, (size_t)count, sizeof *letters, by_date);
    double result = (double)(letters[count / 2].sender % 1000);
    free(letters);
    return tell(comparing, begin, result);
}
