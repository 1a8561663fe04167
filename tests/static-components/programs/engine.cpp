// One file: a namespace as a component. Exceptions, virtual calls, templates, callbacks, threads, jumps, signals.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))
static std::atomic<long> entered[32];
#define CALL(n) (entered[n]++)

namespace app { int depth_of_callback(int); }

namespace engine {
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
  ~Failure() override;
};
Failure::~Failure() = default;

struct Node {
  virtual ~Node() = default;
  virtual long value(long x) = 0;
};
struct Square : Node {
  NOINLINE long value(long x) override { return x * x + 1; }
};
struct Chain : Node {
  std::unique_ptr<Node> next;
  explicit Chain(Node *n) : next(n) {}
  NOINLINE long value(long x) override { return next->value(x) + 3; }
};

NOINLINE long deep(int n) {
  if (n == 0) throw Failure("bottom");
  long r = deep(n - 1);
  asm volatile("" : "+r"(r));
  return r + 1;
}
NOINLINE long guarded(int n) {
  try {
    return deep(n);
  } catch (const Failure &f) {
    return long(std::string(f.what()).size()) + n;
  }
}
NOINLINE long rethrown(int n) {
  struct Note { int *at; ~Note() { ++*at; } };
  int cleaned = 0;
  Note note{&cleaned};
  try {
    return deep(n);
  } catch (...) {
    throw;
  }
}
NOINLINE long visit(int (*callback)(int), int n) {
  long sum = 0;
  for (int i = 0; i < n; i++) sum += callback(i);
  return sum;
}
NOINLINE long each(const std::function<void(int)> &f, int n) {
  for (int i = 0; i < n; i++) f(i);
  return n;
}
template <class T> NOINLINE T twice(T x) { return x + x; }
NOINLINE void leave(jmp_buf *to) { longjmp(*to, 7); }
NOINLINE void end_thread() { pthread_exit(reinterpret_cast<void *>(5)); }
NOINLINE void on_signal(int) { CALL(20); }
// Its callers know which registers it leaves alone.
static NOINLINE int small(int x) { return x ^ 5; }
NOINLINE int sum_small(int n) { int s = 0; for (int i = 0; i < n; i++) s += small(i); return s; }
NOINLINE double mixed(double a, int b, float c, long d, const char *e, double f, int g, long h, long i, double j) {
  return a + b + c + d + e[0] + f + g + h * 2 + i * 3 + j;
}
struct Large { long v[6]; };
NOINLINE Large large(long x) { return {{x, x + 1, x + 2, x + 3, x + 4, x + 5}}; }
__attribute__((noinline)) long sum_list(int n, ...) {
  __builtin_va_list a; __builtin_va_start(a, n); long s = 0;
  for (int i = 0; i < n; i++) s += long(__builtin_va_arg(a, double));
  __builtin_va_end(a); return s;
}
}  // namespace engine

namespace app {
NOINLINE int depth_of_callback(int i) {
  if (i % 3 == 2) { CALL(1); try { engine::deep(2); } catch (const engine::Failure &) { return 100; } }
  return i;
}
static void *thread(void *) { CALL(15); engine::end_thread(); return nullptr; }
}  // namespace app

static int rounds_of(int argc, char **argv) { return argc > 1 ? atoi(argv[1]) : 50; }

int main(int argc, char **argv) {
  long all = 0;
  int rounds = rounds_of(argc, argv);
  signal(SIGUSR1, engine::on_signal);
  for (int r = 0; r < rounds; r++) {
    CALL(1); try { engine::deep(r % 9); } catch (const std::exception &e) { all += e.what()[0]; }
    CALL(2); all += engine::guarded(r % 5);
    CALL(3); try { engine::rethrown(3); } catch (const engine::Failure &) { all++; }
    CALL(4); all += engine::visit(app::depth_of_callback, 6);
    CALL(5); all += engine::each([&](int i) { all += i; CALL(6); all += engine::twice<long>(i); }, 3);
    CALL(7); volatile double x = 1.5; all += long(engine::twice<double>(x));
    jmp_buf jump; if (setjmp(jump) == 0) { CALL(8); engine::leave(&jump); } else all += 9;
    // All calls of small() that are not made by sum_small().
    for (int i = 0; i < 5; i++) { int a = r + i, b = r * 3 + i, c = r ^ i, d = r - i, e = i * 7; CALL(9); all += engine::small(a) + a * b - c + d * e; }
    CALL(10); all += engine::sum_small(4);
    CALL(11); all += long(engine::mixed(1.5, r, 2.5f, r * 2L, "x", 4.5, 5, 6, 7, 8.25));
    CALL(12); engine::Large l = engine::large(r); all += l.v[0] + l.v[5];
    CALL(13); all += engine::sum_list(3, 1.5, 2.5, 3.5);
    engine::Chain *chain = new engine::Chain(new engine::Square);
    engine::Node *volatile node = chain; CALL(14); all += node->value(r); delete chain;
    raise(SIGUSR1);
  }
  for (int i = 0; i < 4; i++) { pthread_t t; void *v; pthread_create(&t, nullptr, app::thread, nullptr); pthread_join(t, &v); all += long(v); }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) threads.emplace_back([i] { for (int k = 0; k < 200; k++) { CALL(2); engine::guarded(k % 4 + i); } });
  for (auto &t : threads) t.join();
  printf("%ld\n", all);
  if (argc > 2) {
    FILE *f = fopen(argv[2], "w");
    const char *names[] = {"", "engine::deep(int)", "engine::guarded(int)", "engine::rethrown(int)", "engine::visit", "engine::each", "engine::twice<long>", "engine::twice<double>", "engine::leave", "engine::small(int)", "engine::sum_small(int)", "engine::mixed", "engine::large(long)", "engine::sum_list(int, ...)", "engine::Chain::value(long)", "engine::end_thread()"};
    for (int i = 1; i < 16; i++) fprintf(f, "program\tengine\t%s\t%ld\n", names[i], entered[i].load());
    fprintf(f, "libc.so.6\tengine\tengine::on_signal(int)\t%ld\n", entered[20].load());
    fclose(f);
  }
  return 0;
}
