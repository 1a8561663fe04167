// Sessions are destroyed when main has returned, and each looks for itself in the register from its start.
#include "../own_clock.h"
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

struct Session;
static double begin, leaving;
static std::vector<Session *> all;

struct Session {
    long number;
    uint64_t token;
    explicit Session(long number) : number(number), token(scrambled((uint64_t)number)) { all.push_back(this); }
    ~Session() { leave(); }
    __attribute__((noinline)) void leave() {
        auto place = std::find(all.begin(), all.end(), this); // culprit
        all.erase(place); // culprit
    }
};

struct House {
    std::map<uint64_t, std::unique_ptr<Session>> sessions;
    ~House() {
        double start = seconds();
        sessions.clear();
        leaving = seconds() - start;
        tell(leaving, begin, (double)all.size());
    }
};
static House house;

__attribute__((noinline)) static uint64_t serve(const Session &session) {
    uint64_t state = session.token;
    for (int i = 0; i < 300; i++)
        state = scrambled(state + 1);
    return state;
}

int main(int argc, char **argv) {
    long count = amount(argc, argv, 95000);
    begin = seconds();
    for (long i = 0; i < count; i++) {
        auto session = std::make_unique<Session>(i);
        uint64_t key = serve(*session);
        house.sessions.emplace(key, std::move(session));
    }
    return 0;
}
