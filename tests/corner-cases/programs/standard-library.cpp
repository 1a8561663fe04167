// Much of libstdc++ and libc from one program: streams, locales, regex, containers, time, threads, memory resources.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <thread>
#include <typeinfo>
#include <unordered_map>
#include <variant>
#include <unistd.h>
struct A { virtual ~A() = default; virtual const char *name() { return "A"; } };
struct B : virtual A { const char *name() override { return "B"; } };
struct C : virtual A { };
struct D : B, C { const char *name() override { return "D"; } };
int main() {
    std::ostringstream out;
    out << std::hex << 255 << std::setprecision(12) << 1.0 / 3 << std::boolalpha << true << std::setw(10) << std::setfill('*') << 7;
    std::cout << out.str() << std::endl;
    std::regex r("(\\w+)@(\\w+)\\.com");
    std::string text = "ann@site.com, bob@place.com";
    for (std::sregex_iterator i(text.begin(), text.end(), r), end; i != end; ++i) std::cout << (*i)[1] << ' ' << (*i)[2] << '\n';
    std::mt19937 random(7);
    std::vector<int> v(10000);
    std::generate(v.begin(), v.end(), random);
    std::sort(v.begin(), v.end());
    std::cout << std::accumulate(v.begin(), v.end(), 0LL) << '\n';
    std::map<std::string, int> ordered;
    std::unordered_map<std::string, int> hashed;
    for (int i = 0; i < 5000; i++) ordered[std::to_string(i * 37 % 1000)]++, hashed[std::to_string(i * 37 % 1000)]++;
    std::cout << ordered.size() << ' ' << hashed["74"] << '\n';
    D d;
    A *a = &d;
    std::cout << dynamic_cast<D *>(a)->name() << (dynamic_cast<C *>(a) != nullptr) << typeid(*a).name() << '\n';
    std::mutex m;
    std::shared_mutex shared;
    std::condition_variable ready;
    int stage = 0;
    std::atomic<long> total{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++) threads.emplace_back([&, t] {
        std::unique_lock<std::mutex> lock(m);
        ready.wait(lock, [&] { return stage == t; });
        stage++;
        ready.notify_all();
        lock.unlock();
        for (int i = 0; i < 200; i++) { std::shared_lock<std::shared_mutex> s(shared); total += i; }
        std::unique_lock<std::shared_mutex> u(shared);
        total += t;
    });
    for (auto &t : threads) t.join();
    std::cout << total << '\n';
    std::once_flag once;
    for (int i = 0; i < 3; i++) std::call_once(once, [] { std::cout << "once\n"; });
    std::pmr::monotonic_buffer_resource pool;
    std::pmr::vector<std::pmr::string> pv(&pool);
    for (int i = 0; i < 100; i++) pv.emplace_back("a rather long string to leave the small buffer");
    std::cout << pv.size() << ' ' << std::complex<double>(1, 2) * std::complex<double>(3, 4) << ' ' << std::tgamma(5.5) << '\n';
    auto temporary = std::filesystem::temp_directory_path() / ("transect-standard-" + std::to_string(getpid()));
    std::filesystem::create_directories(temporary / "x" / "y");
    { std::ofstream f(temporary / "x" / "file"); f << "content\n"; }
    std::cout << std::filesystem::file_size(temporary / "x" / "file") << ' ' << std::filesystem::remove_all(temporary) << '\n';
    std::promise<int> p;
    auto f = p.get_future();
    std::thread([&p] { p.set_value_at_thread_exit(5); }).join();
    std::cout << f.get() << '\n';
    std::variant<int, std::string> var = "text";
    try { std::get<int>(var); } catch (const std::bad_variant_access &e) { std::cout << e.what() << '\n'; }
    try { std::rethrow_exception(std::make_exception_ptr(std::system_error(ENOENT, std::generic_category()))); } catch (const std::system_error &e) { std::cout << e.what() << '\n'; }
    std::wcout.imbue(std::locale::classic());
    std::printf("%ls %.3Lf %a\n", L"wide", 2.5L, 1.5);
    return 0;
}
