// Looks for mail addresses with std::regex_search. The expression is made only once, but the search itself is slow.
#include "../own_clock.h"
#include <future>
#include <regex>
#include <string>
#include <thread>

static std::string line_of(uint64_t number) {
    std::string line;
    while (line.size() < 120) {
        uint64_t random = scrambled(number++);
        for (int k = 0; k < 7; k++, random >>= 7)
            line += (char)('a' + random % 26);
        line += line.size() == 64 ? "@shop.org " : " ";
    }
    return line;
}

static bool is_comment(const std::string &line) { return line[0] == '#'; }

__attribute__((noinline)) static bool has_mail(const std::string &line) {
    static const std::regex mail("[a-z0-9.]+@[a-z]+\\.(com|org|net)");
    return std::regex_search(line, mail); // culprit
}

int main(int argc, char **argv) {
    long lines = amount(argc, argv, 150000);
    double begin = seconds(), searching = 0, sum = 0;
    std::promise<void> done;
    // Waits for the end, which is all that it does.
    std::thread watcher([&] { done.get_future().wait(); });
    for (long i = 0; i < lines; i++) {
        std::string line = line_of((uint64_t)i * 100);
        if (is_comment(line))
            continue;
        double start = seconds();
        sum += has_mail(line);
        searching += seconds() - start;
    }
    done.set_value();
    watcher.join();
    return tell(searching, begin, sum);
}
