// Two threads walk the same scene and copy a shared_ptr for each step, so that they fight for its count.
#include "hclock.h"
#include <memory>
#include <thread>
#include <vector>
struct Node { long weight; std::shared_ptr<Node> next; };
__attribute__((noinline)) static long walk_scene(std::shared_ptr<Node> at, long steps) {
    long sum = 0;
    IN;
    for (long i = 0; i < steps; i++) {
        sum += at->weight;
        std::shared_ptr<Node> next = at->next; // HERE
        at = next; // HERE
    }
    OUT;
    return sum;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long steps = argc > 1 ? atol(argv[1]) : 14000000;
    std::vector<std::shared_ptr<Node>> nodes;
    for (int i = 0; i < 4; i++) nodes.push_back(std::make_shared<Node>(Node{i, nullptr}));
    for (int i = 0; i < 4; i++) nodes[i]->next = nodes[(i + 1) % 4];
    long a = 0, b = 0;
    std::thread t([&] { a = walk_scene(nodes[0], steps); }); b = walk_scene(nodes[2], steps); t.join();
    for (auto &n : nodes) n->next = nullptr;
    spent_ /= 2;
    printf("%ld\n", a + b); CLOCK_SAY;
}
