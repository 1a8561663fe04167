// Landing pads, demangled names.
#include <stdexcept>
#include <vector>
namespace shop {
struct Guard { ~Guard(); };
Guard::~Guard() { asm volatile(""); }
int sell(std::vector<int> &list, int n) {
    Guard guard;
    if (n < 0) throw std::runtime_error("less than nothing");
    list.push_back(n);
    return static_cast<int>(list.size());
}
template <class T> __attribute__((noinline)) T twice(T value) { return value + value; }
template int twice<int>(int);
}
int main(int argc, char **) {
    std::vector<int> list;
    try { return shop::sell(list, argc - 2) + shop::twice(argc); } catch (const std::exception &) { return 1; }
}
