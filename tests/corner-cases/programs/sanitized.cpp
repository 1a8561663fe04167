// Built with -fsanitize=address, undefined or thread. With an argument it commits the error that is found.
#include "../libraries/callbacks.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
static int doubles(int x) { return x * 2; }
int main(int argc, char **argv) {
    std::vector<std::string> words;
    for (int i = 0; i < 2000; i++) words.push_back(std::to_string(call_back_other(doubles, i)));
    size_t total = 0;
    for (auto &w : words) total += w.size();
    long sums[3] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) threads.emplace_back([t, &sums] {
        for (int i = 0; i < 1000; i++) sums[t] += call_back(plain, i + t);
    });
    for (auto &t : threads) t.join();
    try {
        throw std::string("thrown");
    } catch (const std::string &s) {
        printf("%s\n", s.c_str());
    }
    printf("%zu %ld %ld %ld\n", total, sums[0], sums[1], sums[2]);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "overflow")) {
        char *p = (char *)malloc(10);
        p[argc + 9] = 1;
        free(p);
    }
    if (argc > 1 && !strcmp(argv[1], "shift")) printf("%d\n", 1 << (argc + 40));
    if (argc > 1 && !strcmp(argv[1], "race")) {
        static int shared;
        std::thread a([] { for (int i = 0; i < 1000; i++) shared++; });
        std::thread b([] { for (int i = 0; i < 1000; i++) shared++; });
        a.join(), b.join();
    }
}
