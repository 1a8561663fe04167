// Sums the columns of a large matrix that is stored by rows, so that each step is a cache miss.
#include "../own_clock.h"

enum { ROWS = 4096, COLUMNS = 2048 };
static float (*matrix)[COLUMNS];
static float sums[COLUMNS];

static void fill_matrix(void) {
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            matrix[row][column] = (float)((row * 31 + column) % 100);
}

__attribute__((noinline)) static void sum_columns(void) {
    for (int column = 0; column < COLUMNS; column++) {
        float sum = 0;
        for (int row = 0; row < ROWS; row++)
            sum += matrix[row][column]; // culprit
        sums[column] = sum;
    }
}

__attribute__((noinline)) static void scale_rows(void) {
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            matrix[row][column] *= 1.0001f;
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 30);
    double begin = seconds(), summing = 0, result = 0;
    matrix = malloc(sizeof *matrix * ROWS);
    fill_matrix();
    for (long i = 0; i < rounds; i++) {
        scale_rows();
        double start = seconds();
        sum_columns();
        summing += seconds() - start;
        result += sums[i % COLUMNS];
    }
    free(matrix);
    return tell(summing, begin, result);
}
