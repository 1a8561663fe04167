// C++: records are read by small functions that are inlined into regions, with cleanups and handlers of their own: control
// comes back from exceptions into code that belongs to no region of its function, but lies in those of its callers. What is
// open there is noted when a function is entered, and told to the shadow stack by the handlers themselves.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

__attribute__((annotate("feature_variable:A"))) int feature_A;
__attribute__((annotate("feature_variable:B"))) int feature_B;

static thread_local volatile uint64_t sink;
[[gnu::noinline]] static void spin(int n) {
  for (int i = 0; i < n * 16; ++i) sink = sink * 6364136223846793005u + 1442695040888963407u;
}

extern "C" {
int shadow_depth(void);
void shadow_left_open(int regions);
}

// Regions open around the block that it lies in; told again at its end, which unwinding comes to as well.
struct Open {
  const int regions = shadow_depth();
  void again() const { shadow_left_open(regions); }
  ~Open() { again(); }
};

struct Refused {
  int why;
};

[[gnu::noinline]] static int digit(const std::string &text, size_t at) {
  if (at >= text.size()) throw Refused{1};
  spin(4);
  if (text[at] < '0' || text[at] > '9') throw std::invalid_argument(text);
  return text[at] - '0';
}

static inline int number(const std::string &text, size_t &at) {
  Open open;
  std::string seen;
  int value = 0;
  for (int i = 0; i < 3; ++i) {
    if (feature_B) spin(6);
    value = value * 10 + digit(text, at);
    seen += text[at++];
    spin(int(seen.size()));
  }
  return value;
}

static inline int number_or(const std::string &text, size_t &at, int otherwise) {
  Open open;
  try {
    return number(text, at);
  } catch (const std::invalid_argument &) {
    open.again();
    spin(18);
    ++at;
    return otherwise;
  }
}

static inline int sum(const std::string &text) {
  Open open;
  std::vector<int> found;
  size_t at = 0;
  try {
    for (;;) found.push_back(number_or(text, at, 7));
  } catch (const Refused &refused) {
    open.again();
    spin(9);
    if (feature_A) spin(14 + refused.why);
  }
  int all = 0;
  for (int one : found) all += one;
  return all;
}

struct Batch {
  std::map<std::string, int> sums;
  ~Batch() { spin(int(sums.size())); }
  void add(const std::string &name, const std::string &text) { sums[name] += sum(text); }
};

static long run(int rounds, bool strict) {
  long total = 0;
  for (int round = 0; round < rounds; ++round) {
    Open open;
    std::string text = std::to_string(round * 7919L % 1000003);
    if (round % 3 == 0) text += "x" + text;
    Batch batch;
    if (feature_A > round % 2) {
      batch.add("a", text);
      spin(5);
      if (feature_B) batch.add("b", text + text);
    } else {
      total += sum(text);
    }
    try {
      size_t at = 0;
      if (feature_B) {
        total += number(text, at);
        total += number(text, at);
      }
      if (strict && round % 5 == 0) throw Refused{2};
      spin(8);
    } catch (const Refused &refused) {
      open.again();
      total += refused.why;
      if (feature_A) {
        spin(16);
        total += sum("123456");
      }
    } catch (const std::exception &) {
      open.again();
      spin(11);
    }
    for (const auto &one : batch.sums) total += one.second;
  }
  return total;
}

int main(int count, char **arguments) {
  feature_A = count > 1 ? std::atoi(arguments[1]) : 1;
  feature_B = count > 2 ? std::atoi(arguments[2]) : 1;
  std::printf("%ld\n", run(count > 3 ? std::atoi(arguments[3]) : 1000, true));
  return 0;
}
