#include "feature.h"

struct Base {
  int kind;
  explicit Base(int kind) : kind(kind) {}
  virtual ~Base() {}
};
struct State : Base {
  int level, count;
  int table[200];
  State(int level, int count);
  virtual int sum() const { return table[3]; }
};
State::State(int level, int count) : Base(count), level(level), count(count) {
  for (int i = 0; i < 200; ++i)
    table[i] = count * i + 1;
  for (int i = 1; i < 200; ++i)
    table[i] += table[i - 1] / (i + 2) - count % i + table[i / 2] * 3 + table[i / 3] * 5 - table[i / 5] * 7;
  table[0] = table[1] + table[2] * table[3] - table[4] + table[5] * table[6] - table[7];
}
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  State *state = new State(level, argc);
  if (state->level > 3) // region {A}
    work(1);
  if (state->count > 3)
    work(2);
  if (state->kind > 3)
    work(3);
  work(state->sum());
  return 0;
}
