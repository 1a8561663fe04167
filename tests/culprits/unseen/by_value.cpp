// The dictionary is handed over by value for each question.
#include "hclock.h"
#include <string>
#include <vector>
static size_t longest(std::vector<std::string> words, size_t from) { return words[from % words.size()].size(); }
static size_t ask_dictionary(const std::vector<std::string> &words, size_t i) {
    IN;
    size_t r = longest(words, i); // HERE
    OUT;
    return r;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 32000; std::vector<std::string> words; size_t sum = 0;
    for (int i = 0; i < 2000; i++) words.push_back("a word that is too long for itself " + std::to_string(mixed(i)));
    for (long i = 0; i < n; i++) sum += ask_dictionary(words, i);
    printf("%zu\n", sum); CLOCK_SAY;
}
