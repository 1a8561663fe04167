// Each of many small jobs is announced to all sixteen workers, of which one finds it. Fix: tell one.
#include "truth.h"
#include "work.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static const int WORKERS = 16, JOBS = 6000;
static std::mutex queue_lock;
static std::condition_variable more, room;
static std::deque<int> jobs;
static bool ended;

__attribute__((noinline)) static bool next_job(int &job) {
    std::unique_lock<std::mutex> guard(queue_lock);
    while (jobs.empty() && !ended)
        more.wait(guard);
    if (jobs.empty())
        return false;
    job = jobs.front();
    jobs.pop_front();
    room.notify_one();
    return true;
}

__attribute__((noinline)) static void submit_job(int job, bool fixed) {
    std::unique_lock<std::mutex> guard(queue_lock);
    while (!jobs.empty())
        room.wait(guard);
    jobs.push_back(job);
    guard.unlock();
    if (fixed)
        more.notify_one();
    else
        more.notify_all();
}

static void work(int number) {
    truth_name(("worker-" + std::to_string(number)).c_str());
    int job;
    uint64_t sum = 0;
    while (next_job(job))
        sum = mixed(sum + job, 2 * MICROSECOND);
    truth_note();
}

int main(int argc, char **argv) {
    bool fixed = truth_begin(argc, argv);
    std::vector<std::thread> workers;
    for (int i = 0; i < WORKERS; i++)
        workers.emplace_back(work, i);
    for (int i = 0; i < JOBS; i++)
        submit_job(i, fixed);
    {
        std::lock_guard<std::mutex> guard(queue_lock);
        ended = true;
    }
    more.notify_all();
    for (auto &worker : workers)
        worker.join();
    truth_print("condition", "next_job", "more", "", 0);
}
