// A C++ library that throws, catches and rethrows across its boundary.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>
struct Shape {
    virtual ~Shape();
    virtual double area() const = 0;
};
struct Failure : std::runtime_error {
    int code;
    Failure(int code, const std::string &what);
    ~Failure() override;
};
struct Guard {
    std::string &log;
    char mark;
    Guard(std::string &log, char mark);
    ~Guard();
};
int throw_code(int code);
int throw_string(const std::string &text);
int pass_through(const std::function<int(int)> &function, int depth, std::string &log);
int catch_and_rethrow(const std::function<int(int)> &function, int argument, std::string &log);
int translate(const std::function<int(int)> &function, int argument);
void never_throws(const std::function<void()> &function) noexcept;
void sort_with(std::vector<int> &values, const std::function<bool(int, int)> &less);
