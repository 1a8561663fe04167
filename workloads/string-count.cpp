// Counts words in an ordered map keyed by C strings. Most of its time is strcmp, called from the tree's comparator
// (and libstdc++'s _Rb_tree_insert_and_rebalance, cheap). Fix: a hash table, one strcmp per lookup at most.
//
// usage: string-count [--fixed] [thousands of words, default 4000]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

static long compared; // the truth that a profile is checked against
static int compare(const char *a, const char *b) {
    compared++;
    return strcmp(a, b);
}
struct Before {
    bool operator()(const char *a, const char *b) const { return compare(a, b) < 0; }
};
struct Hash {
    size_t operator()(const char *s) const {
        size_t h = 1469598103934665603UL;
        for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211UL;
        return h;
    }
};
struct Equal {
    bool operator()(const char *a, const char *b) const { return compare(a, b) == 0; }
};

static std::vector<std::string> make_words(size_t count) {
    std::vector<std::string> words;
    unsigned long seed = 12345;
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        // A long common head is what makes the comparison the cost, as with paths and URLs.
        words.push_back("https://www.example.org/archive/of/documents/" + std::to_string((seed >> 33) % 50000));
    }
    return words;
}
template <class Map> static void count(const std::vector<std::string> &words, size_t total) {
    Map counts;
    for (size_t i = 0; i < total; i++) counts[words[i % words.size()].c_str()]++;
    long most = 0;
    for (auto &entry : counts) most = entry.second > most ? entry.second : most;
    printf("%zu words, %zu different, most frequent %ld\n", total, counts.size(), most);
    printf("calls: string-count libc.so.6 strcmp %ld\n", compared);
}
int main(int argc, char **argv) {
    bool fixed = false;
    size_t total = 4000000;
    for (int i = 1; i < argc; i++) {
        if (!compare(argv[i], "--fixed")) fixed = true;
        else total = strtoul(argv[i], nullptr, 10) * 1000;
    }
    auto words = make_words(200000);
    if (fixed) count<std::unordered_map<const char *, long, Hash, Equal>>(words, total);
    else count<std::map<const char *, long, Before>>(words, total);
}
