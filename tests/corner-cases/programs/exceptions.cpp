// Exceptions pass every kind of foreign frame: callbacks, other libraries, rethrow, nested, threads.
#include "../libraries/callbacks.h"
#include "../libraries/throwing.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

static int compare_throwing(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 13 || y == 13) throw Failure(13, "unlucky");
    return x - y;
}
static void print_nested(const std::exception &e, int level) {
    printf("%*s%s\n", level * 2, "", e.what());
    try {
        std::rethrow_if_nested(e);
    } catch (const std::exception &inner) {
        print_nested(inner, level + 1);
    }
}
static int from_c(int argument) { return throw_code(argument); }

static void sorted() {
    int values[] = {5, 3, 9, 13, 1, 2, 8};
    try {
        qsort(values, 7, sizeof(int), compare_throwing);
        puts("not thrown");
    } catch (const Failure &f) {
        printf("out of qsort: %d %s\n", f.code, f.what());
    }
    int key = 13;
    try {
        bsearch(&key, values, 7, sizeof(int), compare_throwing);
    } catch (const Failure &f) {
        printf("out of bsearch: %d\n", f.code);
    }
    std::vector<int> many;
    for (int i = 0; i < 1000; i++) many.push_back(i * 7919 % 1000);
    int compared = 0;
    try {
        sort_with(many, [&](int a, int b) {
            if (++compared == 500) throw compared;
            return a < b;
        });
    } catch (int n) {
        printf("out of stable_sort after %d\n", n);
    }
}
static void across() {
    std::string log;
    for (int depth : {0, 1, 5, 40}) try {
            log.clear();
            pass_through([](int d) { return throw_code(d + 7); }, depth, log);
        } catch (const Failure &f) {
            printf("depth %d: %s %s\n", depth, f.what(), log.c_str());
        }
    try {
        log.clear();
        catch_and_rethrow([&](int a) { return catch_and_rethrow([](int b) { return throw_code(b); }, a, log); }, 4, log);
    } catch (Failure &f) {
        printf("rethrown %d %s\n", f.code, log.c_str());
    }
    try {
        translate([](int a) { return translate([](int b) { return throw_code(b); }, a); }, 3);
    } catch (const std::exception &e) {
        print_nested(e, 0);
    }
    try {
        call_back_other(from_c, 11);
    } catch (const Failure &f) {
        printf("through two C libraries: %d\n", f.code);
    }
    try {
        call_back_deep(from_c, 12, 300);
    } catch (const Failure &f) {
        printf("through deep C frames: %d\n", f.code);
    }
    printf("not thrown: %d\n", call_back_other(from_c, -11));
    try {
        throw_string("text");
    } catch (const std::string &s) {
        printf("string %s\n", s.c_str());
    }
    try {
        std::string().at(3);
    } catch (const std::out_of_range &) {
        puts("out of range");
    }
    try {
        std::stoi("none");
    } catch (const std::invalid_argument &e) {
        puts(e.what());
    }
    std::istringstream in("x");
    in.exceptions(std::ios::failbit);
    try {
        int n;
        in >> n;
    } catch (const std::ios_base::failure &) {
        puts("stream failure");
    }
    try {
        std::vector<int> v;
        v.reserve((size_t)-1 / 8);
    } catch (const std::length_error &e) {
        puts("length error");
    }
    std::exception_ptr kept;
    try {
        throw_code(21);
    } catch (...) {
        kept = std::current_exception();
    }
    std::thread([kept] {
        try {
            std::rethrow_exception(kept);
        } catch (const Failure &f) {
            printf("in another thread %d\n", f.code);
        }
    }).join();
    try {
        std::async(std::launch::async, [] { return throw_code(22); }).get();
    } catch (const Failure &f) {
        printf("from a future %d\n", f.code);
    }
}
struct ThrowsInCleanup {
    std::string &log;
    ~ThrowsInCleanup() {
        try {
            throw_code(5);
        } catch (const Failure &f) {
            log += "5 in " + std::to_string(std::uncaught_exceptions()) + ";";
        }
    }
};
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "caught";
    setvbuf(stdout, nullptr, _IONBF, 0);
    if (!strcmp(how, "caught")) {
        for (int round = 0; round < 3; round++) sorted(), across();
        std::string log;
        try {
            ThrowsInCleanup t{log};
            throw_code(6);
        } catch (const Failure &f) {
            printf("cleanup %s %d\n", log.c_str(), f.code);
        }
        long caught = 0;
        for (int i = 1; i <= 20000; i++) try {
                call_back(from_c, i);
            } catch (const Failure &f) {
                caught += f.code;
            }
        printf("%ld\n", caught);
    } else if (!strcmp(how, "uncaught")) {
        puts("before");
        call_back_other(from_c, 9);
    } else if (!strcmp(how, "uncaught-in-thread")) {
        std::thread([] { call_back(from_c, 10); }).join();
    } else if (!strcmp(how, "noexcept")) {
        never_throws([] { throw_code(3); });
    } else if (!strcmp(how, "terminate-handler")) {
        std::set_terminate([] {
            try {
                std::rethrow_exception(std::current_exception());
            } catch (const Failure &f) {
                printf("terminate handler: %s\n", f.what());
            }
            _Exit(42);
        });
        call_back(from_c, 9);
    } else if (!strcmp(how, "pure-virtual")) {
        struct Base {
            Base() { touch(this); }
            virtual ~Base() {}
            static void touch(Base *b) { b->value(); }
            virtual int value() = 0;
        };
        struct Derived : Base {
            int value() override { return 1; }
        };
        Derived d;
    }
    return 0;
}
