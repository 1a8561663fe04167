// Reads a table in which most cells are no numbers. Each of them throws.
#include "../own_clock.h"
#include <charconv>
#include <stdexcept>
#include <string>
#include <vector>

static double throwing = 0;

static std::vector<std::string> make_cells(long count) {
    std::vector<std::string> cells;
    for (long i = 0; i < count; i++)
        cells.push_back(i % 10 ? "n/a" : std::to_string(scrambled(uint64_t(i)) % 100000));
    return cells;
}

__attribute__((noinline)) static int parse_cell(const std::string &cell) {
    int value = 0;
    auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || *end)
        throw std::invalid_argument("no number"); // culprit
    return value;
}

__attribute__((noinline)) static long sum_cells(const std::vector<std::string> &cells) {
    long sum = 0;
    for (const std::string &cell : cells) {
        double start = seconds();
        try {
            sum += parse_cell(cell); // culprit
        } catch (const std::invalid_argument &) {
            sum -= 1;
            throwing += seconds() - start;
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    long rounds = amount(argc, argv, 14);
    double begin = seconds(), sum = 0;
    auto cells = make_cells(100000);
    for (long i = 0; i < rounds; i++)
        sum += double(sum_cells(cells));
    return tell(throwing, begin, sum);
}
