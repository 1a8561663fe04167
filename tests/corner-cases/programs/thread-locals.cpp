// thread_local destructors that call APIs, in order, at the end of threads and of the program.
#include "../libraries/callbacks.h"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
static void say(const std::string &text) {
    if (write(1, text.data(), text.size()) < 0) abort();
}
struct Traced {
    std::string name;
    explicit Traced(std::string n) : name(std::move(n)) { say("+" + name + "\n"); }
    ~Traced() { say("-" + name + " " + std::to_string(call_back_other(plain, (int)name.size())) + "\n"); }
};
thread_local Traced first("first");
thread_local Traced second("second");
static Traced global("global");
int main() {
    for (int i = 0; i < 3; i++)
        std::thread([] {
            say("thread uses " + second.name + "\n");
            say("thread uses " + first.name + "\n");
        }).join();
    std::thread([] { thread_local std::string big(100000, 'x'); say(std::to_string(big.size()) + "\n"); }).join();
    atexit([] { say("atexit\n"); });
    at_quick_exit([] { say("at_quick_exit\n"); });
    say("main uses " + first.name + "\n");
    return 3;
}
