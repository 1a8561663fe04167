// Calls of a library from regions that exceptions leave: caught in the caller, thrown again, caught in their own frame. Says `called FEATURES API TIMES`.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

enum { STRICT = 1, CAREFUL = 2 };
enum { ERF, TGAMMA, LGAMMA, APIS };
static const char *names[APIS] = {"erf", "tgamma", "lgamma"};
static long called[4][APIS];
static int active;
static volatile double sink;
static bool strict, careful;

#define CALL(api, expression) (called[active][api]++, sink = (expression))

__attribute__((noinline)) static void check(int value) {
    int before = active;
    if (strict) {
        active |= STRICT;
        CALL(ERF, erf(value));
        if (value % 3 == 0)
            throw std::runtime_error("three");
        CALL(TGAMMA, tgamma(value));
        active = before;
    }
    CALL(LGAMMA, lgamma(value + 2));
}

__attribute__((noinline)) static void caller(int value) {
    int before = active;
    if (careful) {
        active |= CAREFUL;
        CALL(ERF, erf(value));
        try {
            check(value);
        } catch (const std::runtime_error &) {
            active = before | CAREFUL;
            CALL(TGAMMA, tgamma(value));
            if (value % 2 == 0)
                throw;
            CALL(LGAMMA, lgamma(value + 2));
        }
        CALL(ERF, erf(value));
        active = before;
    }
    CALL(TGAMMA, tgamma(value));
}

__attribute__((noinline)) static void burst(int value) {
    CALL(ERF, erf(value));
    if (value % 3 == 0)
        throw value;
}

// The throw and the catch are in one frame; the catch, which runs because of the decision, is still in its region.
__attribute__((noinline)) static void same_frame(int value) {
    int before = active;
    if (careful) {
        active |= CAREFUL;
        CALL(LGAMMA, lgamma(value + 2));
        if (strict) {
            active |= STRICT;
            try {
                burst(value);
                CALL(TGAMMA, tgamma(value));
            } catch (int) {
                CALL(LGAMMA, lgamma(value + 3));
            }
            active = before | CAREFUL;
        }
        CALL(ERF, erf(value));
        active = before;
    }
    CALL(TGAMMA, tgamma(value));
}

int main(int argc, char **argv) {
    strict = argc > 1 && std::atoi(argv[1]);
    careful = argc > 2 && std::atoi(argv[2]);
    for (int i = 0; i < 300; i++) {
        int before = active;
        try {
            caller(i);
        } catch (const std::exception &) {
            active = before;
            CALL(LGAMMA, lgamma(i + 2));
        }
        same_frame(i);
        CALL(ERF, erf(i));
    }
    for (int set = 0; set < 4; set++)
        for (int api = 0; api < APIS; api++)
            if (called[set][api])
                std::printf("called %s%s- %s %ld\n", set & STRICT ? "strict," : "", set & CAREFUL ? "careful," : "", names[api], called[set][api]);
    return 0;
}
