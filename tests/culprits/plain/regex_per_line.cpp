// Looks for a date in each line, and makes the regular expression anew for each.
#include "../own_clock.h"
#include <regex>
#include <string>

static double making = 0;

static std::string make_line(uint64_t number) {
    char line[64];
    snprintf(line, sizeof line, "%04u-%02u-%02u visitor %u", 1990 + unsigned(number % 40), 1 + unsigned(number % 12),
             1 + unsigned(number % 28), unsigned(scrambled(number) % 1000));
    return line;
}

__attribute__((noinline)) static bool has_date(const std::string &line) {
    double start = seconds();
    std::regex date("[0-9]{4}-[0-9]{2}-[0-9]{2}"); // culprit
    making += seconds() - start;
    return std::regex_search(line, date);
}

int main(int argc, char **argv) {
    long lines = amount(argc, argv, 45000);
    double begin = seconds(), dated = 0;
    for (long i = 0; i < lines; i++)
        dated += has_date(make_line(uint64_t(i)));
    return tell(making, begin, dated);
}
