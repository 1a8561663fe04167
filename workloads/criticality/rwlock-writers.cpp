// Readers look names up under a shared lock; a writer rebuilds the index under it. Fix: it adds what is new.
#include "truth.h"
#include "work.h"
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static const int READERS = 3, LOOKUPS = 5000;
static std::shared_mutex index_lock;
static std::unordered_map<uint64_t, uint64_t> names;
static std::atomic<int> left{READERS};

__attribute__((noinline)) static void rebuild_index(long entries) {
    for (long i = 0; i < entries; i++)
        names[mixed(i, 300) % 4096] = i;
}

static void write_index(bool fixed) {
    truth_name("indexer");
    while (left > 0) {
        {
            std::unique_lock<std::shared_mutex> guard(index_lock);
            rebuild_index(fixed ? 100 : 25000);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
    }
    truth_note();
}

static uint64_t find_name(uint64_t key) {
    std::shared_lock<std::shared_mutex> guard(index_lock);
    auto found = names.find(key % 4096);
    return found == names.end() ? 0 : found->second;
}

static void read_index(int number) {
    truth_name(("reader-" + std::to_string(number)).c_str());
    uint64_t key = number;
    for (int i = 0; i < LOOKUPS; i++)
        key = mixed(key + find_name(key), 20 * MICROSECOND);
    left--;
    truth_note();
}

int main(int argc, char **argv) {
    bool fixed = truth_begin(argc, argv);
    std::thread writer(write_index, fixed);
    std::vector<std::thread> readers;
    for (int i = 0; i < READERS; i++)
        readers.emplace_back(read_index, i);
    for (auto &reader : readers)
        reader.join();
    writer.join();
    truth_print("rwlock", "rebuild_index", "index_lock", "indexer", -1);
}
