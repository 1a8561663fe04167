// Puts a text together row by row, and copies all of it for each row.
#include "../own_clock.h"
#include <string>
#include <vector>

static std::vector<std::string> make_rows(uint64_t seed) {
    std::vector<std::string> rows;
    for (uint64_t i = 0; i < 3000; i++)
        rows.push_back("row " + std::to_string(scrambled(seed + i)) + "\n");
    return rows;
}

__attribute__((noinline)) static std::string join_rows(const std::vector<std::string> &rows) {
    std::string text;
    for (const std::string &row : rows)
        text = text + row; // culprit
    return text;
}

static uint64_t sum_of(const std::string &text) {
    uint64_t sum = 0;
    for (unsigned char letter : text)
        sum = sum * 31 + letter;
    return sum;
}

int main(int argc, char **argv) {
    long texts = amount(argc, argv, 450);
    double begin = seconds(), joining = 0, sum = 0;
    for (long i = 0; i < texts; i++) {
        auto rows = make_rows(uint64_t(i));
        double start = seconds();
        std::string text = join_rows(rows);
        joining += seconds() - start;
        sum += double(sum_of(text) % 1000);
    }
    return tell(joining, begin, sum);
}
