// Makes words lower case with a new copy of the global locale for each letter.
#include "../own_clock.h"
#include <locale>
#include <string>
#include <unordered_map>

struct Grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return '\''; }
};

static std::string word_of(uint64_t number) {
    std::string word;
    for (uint64_t random = scrambled(number % 5000); word.size() < 12; random >>= 5)
        word += (char)((random & 32 ? 'A' : 'a') + random % 26);
    return word;
}

__attribute__((noinline)) static void lower_word(std::string &word) {
    for (char &letter : word)
        letter = std::tolower(letter, std::locale()); // culprit
}

int main(int argc, char **argv) {
    long words = amount(argc, argv, 4000000);
    std::locale::global(std::locale(std::locale::classic(), new Grouping));
    std::unordered_map<std::string, long> seen;
    double begin = seconds(), lowering = 0, sum = 0;
    for (long i = 0; i < words; i += 64) {
        std::string block[64];
        for (long k = 0; k < 64; k++)
            block[k] = word_of((uint64_t)(i + k));
        double start = seconds();
        for (std::string &word : block)
            lower_word(word);
        lowering += seconds() - start;
        for (const std::string &word : block)
            sum += (double)++seen[word];
    }
    return tell(lowering, begin, sum);
}
