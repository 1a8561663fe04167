// Two screens wait for frames that one thread decodes, and slowly.
#include "../own_clock.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

static std::mutex frames_lock;
static std::condition_variable frames_changed;
static std::deque<uint64_t> frames;
static bool finished;
static double decoding = 0;
static uint64_t seen[2];

__attribute__((noinline)) static uint64_t decode_frame(uint64_t number) {
    uint64_t state = number;
    for (int i = 0; i < 1200000; i++)
        state = scrambled(state + 1); // culprit
    return state;
}

static void decoder(long count) {
    for (long i = 0; i < count; i++) {
        double start = seconds();
        uint64_t frame = decode_frame(uint64_t(i));
        decoding += seconds() - start;
        std::lock_guard<std::mutex> held(frames_lock);
        frames.push_back(frame);
        frames_changed.notify_one();
    }
    std::lock_guard<std::mutex> held(frames_lock);
    finished = true;
    frames_changed.notify_all();
}

__attribute__((noinline)) static void show_frame(uint64_t frame, uint64_t *sum) {
    for (int i = 0; i < 150000; i++)
        frame = scrambled(frame);
    *sum += frame % 10;
}

static void screen(int number) {
    for (;;) {
        std::unique_lock<std::mutex> held(frames_lock);
        frames_changed.wait(held, [] { return finished || !frames.empty(); });
        if (frames.empty())
            return;
        uint64_t frame = frames.front();
        frames.pop_front();
        held.unlock();
        show_frame(frame, &seen[number]);
    }
}

int main(int argc, char **argv) {
    long count = amount(argc, argv, 450);
    double begin = seconds();
    std::thread first(screen, 0), second(screen, 1), source(decoder, count);
    source.join();
    first.join();
    second.join();
    return tell(decoding, begin, double(seen[0] + seen[1]));
}
