// Walks a tree in order with coroutines: each level hands each number on to the one above it.
#include "../own_clock.h"
#include <coroutine>
#include <exception>
#include <utility>

struct Numbers {
    struct promise_type {
        long number = 0;
        Numbers get_return_object() { return Numbers{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long value) { number = value; return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Numbers(std::coroutine_handle<promise_type> from) : handle(from) {}
    Numbers(Numbers &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    ~Numbers() { if (handle) handle.destroy(); }
    bool next() { handle.resume(); return !handle.done(); }
    long number() const { return handle.promise().number; }
};

struct Node { long number; Node *left, *right; };

static Node *grown(long first, long last) {
    if (first > last)
        return nullptr;
    long middle = (first + last) / 2;
    return new Node{middle, grown(first, middle - 1), grown(middle + 1, last)};
}

static Numbers in_order(const Node *node) {
    if (node->left)
        for (Numbers rest = in_order(node->left); rest.next();)
            co_yield rest.number(); // culprit
    co_yield node->number;
    if (node->right)
        for (Numbers rest = in_order(node->right); rest.next();)
            co_yield rest.number(); // culprit
}

__attribute__((noinline)) static double weight_of(long number) { return (double)(scrambled((uint64_t)number) % 10); }

int main(int argc, char **argv) {
    long walks = amount(argc, argv, 350);
    double begin = seconds(), sum = 0, weighing = 0;
    Node *root = grown(1, 32000);
    double grew = seconds() - begin;
    for (long i = 0; i < walks; i++)
        for (Numbers all = in_order(root); all.next();)
            sum += weight_of(all.number());
    double end = seconds();
    // What is not the walk: the weighing, timed once by itself.
    for (long i = 1; i <= 32000; i++)
        sum += weight_of(i);
    weighing = (seconds() - end) * (double)walks;
    return tell(end - begin - grew - weighing, begin, sum);
}
