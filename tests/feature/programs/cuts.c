/* An option is seen in two ways: `plain` is compared where it is used, `verbose` spreads through one place, the log level that a
   branch on it sets. A cut of that place leaves the decision on the option itself. */
#include <stdlib.h>

int verbose, plain;
struct log {
  int lines;
  int level;
} log_state;
volatile int sum;

__attribute__((noinline)) static void configure(struct log *state) {
  if (verbose)
    state->level = 3;  // spreads
}

__attribute__((noinline)) static void read_input(const struct log *state, int n) {
  if (state->level > 0)
    sum += n;
  for (int i = 0; i < n; ++i)
    sum += i;
}

__attribute__((noinline)) static void transform(const struct log *state, int n) {
  if (state->level > 1)
    sum += n;
  if (state->level > 2)
    sum -= n;
}

__attribute__((noinline)) static void write_output(const struct log *state, int n) {
  if (state->level == 3)
    sum += n;
  if (plain)
    sum += 2 * n;
}

int main(int argc, char **argv) {
  verbose = argc > 1 && atoi(argv[1]);
  plain = argc > 2 && atoi(argv[2]);
  configure(&log_state);
  read_input(&log_state, argc);
  transform(&log_state, argc);
  write_output(&log_state, argc);
  return 0;
}
