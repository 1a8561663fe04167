// Regions that exceptions leave: caught in the same function, in the caller, and thrown again.
#include "truth.h"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

long entered[16];
static bool strict, careful;

__attribute__((noinline)) static void check(int value) {
    if (strict) { // region 1 {strict}
        ENTERED(1);
        if (value % 3 == 0)
            throw std::runtime_error("three");
        usleep(0);
    }
}

__attribute__((noinline)) static void caller(int value) {
    if (careful) { // region 2 {careful}
        ENTERED(2);
        try {
            check(value);
        } catch (const std::runtime_error &) {
            if (value % 2 == 0)
                throw;
        }
        usleep(0);
    } else {
        check(value);
    }
}

int main(int argc, char **argv) {
    strict = argc > 1 && std::atoi(argv[1]);
    careful = argc > 2 && std::atoi(argv[2]);
    long caught = 0;
    for (int i = 0; i < 300; i++) {
        try {
            caller(i);
        } catch (const std::exception &) {
            caught++;
        }
        if (careful) { // region 3 {careful}
            ENTERED(3);
            usleep(0);
        }
    }
    std::printf("caught %ld\n", caught);
    say_truth();
    return 0;
}
