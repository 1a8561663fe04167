#include "throwing.hpp"
#include <algorithm>
Shape::~Shape() = default;
Failure::Failure(int code, const std::string &what) : std::runtime_error(what), code(code) {}
Failure::~Failure() = default;
Guard::Guard(std::string &log, char mark) : log(log), mark(mark) {}
Guard::~Guard() { log += mark; }
int throw_code(int code) {
    if (code > 0) throw Failure(code, "code " + std::to_string(code));
    return -code;
}
int throw_string(const std::string &text) { throw text; }
int pass_through(const std::function<int(int)> &function, int depth, std::string &log) {
    Guard guard(log, (char)('a' + depth % 26));
    return depth ? pass_through(function, depth - 1, log) : function(depth);
}
int catch_and_rethrow(const std::function<int(int)> &function, int argument, std::string &log) {
    try {
        return function(argument);
    } catch (Failure &f) {
        log += "<" + std::to_string(f.code) + ">";
        throw;
    }
}
int translate(const std::function<int(int)> &function, int argument) {
    try {
        return function(argument);
    } catch (const std::exception &e) {
        std::throw_with_nested(std::logic_error(std::string("translated: ") + e.what()));
    }
}
void never_throws(const std::function<void()> &function) noexcept { function(); }
void sort_with(std::vector<int> &values, const std::function<bool(int, int)> &less) {
    std::stable_sort(values.begin(), values.end(), less);
}
