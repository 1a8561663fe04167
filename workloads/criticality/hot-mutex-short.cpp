// Four threads count events in one table under one lock, a few microseconds at a time. Fix: a table for each thread.
#include "truth.h"
#include "work.h"
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static const int EVENTS = 120000, THREADS = 4;
static std::mutex table_lock;
static std::map<uint64_t, long> table;

__attribute__((noinline)) static void count_event(std::map<uint64_t, long> &counts, uint64_t event) {
    for (int i = 0; i < 40; i++)
        counts[mixed(event, 20 + i) % 509]++;
}

static void collect(int number, bool fixed, std::map<uint64_t, long> &own) {
    truth_name(("collector-" + std::to_string(number)).c_str());
    uint64_t event = number + 1;
    for (int i = 0; i < EVENTS / THREADS; i++) {
        event = mixed(event, 100);
        if (fixed) {
            count_event(own, event);
        } else {
            std::lock_guard<std::mutex> guard(table_lock);
            count_event(table, event);
        }
    }
    truth_note();
}

int main(int argc, char **argv) {
    bool fixed = truth_begin(argc, argv);
    std::vector<std::thread> threads;
    std::vector<std::map<uint64_t, long>> own(THREADS);
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(collect, i, fixed, std::ref(own[i]));
    for (auto &thread : threads)
        thread.join();
    for (auto &counts : own)
        for (auto &entry : counts)
            table[entry.first] += entry.second;
    long sum = 0;
    for (auto &entry : table)
        sum += entry.second;
    if (sum != 40L * EVENTS)
        return 1;
    truth_print("mutex", "count_event", "table_lock", "collector", 2);
}
