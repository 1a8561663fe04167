// C++: exceptions through several functions, cleanups, virtual calls, templates and lambdas that are inlined, threads.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

__attribute__((annotate("feature_variable:A"))) int feature_A;
__attribute__((annotate("feature_variable:B"))) int feature_B;

static thread_local volatile uint64_t sink;
[[gnu::noinline]] static void spin(int n) {
  uint64_t x = sink + n;
  for (int i = 0; i < n; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x;
}

struct Guard {
  int n;
  explicit Guard(int n) : n(n) {}
  ~Guard() {
    if (feature_B) spin(n);
  }
};

struct Shape {
  virtual ~Shape() = default;
  virtual double area(int depth) const = 0;
};
struct Square final : Shape {
  double a;
  explicit Square(double a) : a(a) {}
  double area(int depth) const override {
    if (feature_A) spin(60);
    Guard guard(10);
    if (depth % 37 == 0) throw std::runtime_error("square");
    return a * a;
  }
};
struct Group final : Shape {
  std::vector<std::unique_ptr<Shape>> parts;
  double area(int depth) const override {
    double sum = 0;
    for (auto &part : parts) {
      try {
        if (feature_B) {
          spin(20);
          sum += part->area(depth + 1);
        } else {
          sum += part->area(depth + 2);
        }
      } catch (const std::logic_error &) {
        sum -= 1;
      } catch (const std::runtime_error &) {
        spin(15);
        if (feature_A) {
          spin(30);
          if (depth > 4) throw;
        }
      }
    }
    return sum;
  }
};

template <int Unit, class Work>
static inline double repeat(int times, Work work) {
  double sum = 0;
  for (int i = 0; i < times; ++i) {
    if (feature_A) spin(Unit);
    try {
      sum += work(i);
    } catch (int wrong) {
      if (feature_B) spin(25);
      sum += wrong;
    }
    spin(3);
  }
  return sum;
}

static double worker(int seed, int rounds) {
  Group group;
  for (int i = 0; i < 9; ++i) {
    if (i % 3 == 2) {
      auto inner = std::make_unique<Group>();
      for (int k = 0; k < 4; ++k) inner->parts.push_back(std::make_unique<Square>(k));
      group.parts.push_back(std::move(inner));
    } else {
      group.parts.push_back(std::make_unique<Square>(i));
    }
  }
  std::vector<int> numbers(64);
  double total = 0;
  for (int round = 0; round < rounds; ++round) {
    try {
      total += group.area(seed + round);
    } catch (const std::exception &) {
      total += 0.5;
      if (feature_B) spin(12);
    }
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = (int)((i * 2654435761u + round) % 1009);
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) {
      if (feature_A) {
        spin(2);
        return b < a;
      }
      return a < b;
    });
    if (feature_A && feature_B) {
      total += repeat<20>(4, [&](int i) -> double {
        if (feature_B && (round + i) % 11 == 0) throw 7;
        return numbers[(size_t)i];
      });
    }
    std::map<std::string, int> names;
    for (int i = 0; i < 6; ++i) {
      if (feature_B) names["name " + std::to_string(i * round)] = i;
      else names[std::to_string(i)] = i;
    }
    total += (double)names.size();
  }
  return total;
}

int main(int argc, char **argv) {
  feature_A = argc > 1 && atoi(argv[1]);
  feature_B = argc > 2 && atoi(argv[2]);
  int rounds = argc > 3 ? atoi(argv[3]) : 20000;
  std::vector<std::thread> threads;
  double totals[3] = {};
  for (int t = 0; t < 3; ++t) threads.emplace_back([&, t] { totals[t] = worker(t * 1000, rounds); });
  for (auto &thread : threads) thread.join();
  printf("%.1f\n", totals[0] + totals[1] + totals[2]);
}
