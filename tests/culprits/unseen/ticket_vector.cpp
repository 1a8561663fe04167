// A queue of tickets is a vector, and each is taken from its front.
#include "hclock.h"
#include <vector>
struct Ticket { long id, owner, due; };
struct Desk {
    std::vector<Ticket> open;
    Ticket next_ticket();
};
__attribute__((noinline)) Ticket Desk::next_ticket() {
    IN;
    Ticket t = open.front();
    open.erase(open.begin()); // HERE
    OUT;
    return t;
}
int main(int argc, char **argv) {
    CLOCK_INIT;
    long n = argc > 1 ? atol(argv[1]) : 130000; Desk d; uint64_t sum = 0;
    for (long i = 0; i < n; i++) d.open.push_back({i, (long)mixed(i), i});
    while (!d.open.empty()) { Ticket t = d.next_ticket(); sum += mixed(t.owner); }
    printf("%d\n", (int)(sum & 7)); CLOCK_SAY;
}
