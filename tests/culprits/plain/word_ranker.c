// The child of report_by_child: reads words, and says how often each comes. It looks for each word from the start.
#include "../own_clock.h"

enum { MOST = 4096 };
static struct {
    char word[24];
    long count;
} table[MOST];
static int used;

__attribute__((noinline)) static void rank_word(const char *word) {
    for (int i = 0; i < used; i++)
        if (strcmp(table[i].word, word) == 0) { // culprit
            table[i].count++;
            return;
        }
    if (used < MOST) {
        snprintf(table[used].word, sizeof table[used].word, "%s", word);
        table[used++].count = 1;
    }
}

int main(void) {
    char line[64];
    double ranking = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        double start = seconds();
        rank_word(line);
        ranking += seconds() - start;
    }
    printf("%.6f\n", ranking);
    for (int i = 0; i < used; i++)
        printf("%s %ld\n", table[i].word, table[i].count);
    return 0;
}
