// A setter that a constant selects from does something else at each call.
#include "feature.h"

enum parameter { LEVEL, WINDOW };
struct state {
  int level, window, rest[8];
};

static int set(struct state *state, enum parameter which, int value) {
  switch (which) {
  case LEVEL:
    state->level = value;
    state->rest[0] = state->rest[7] + 1;
    state->rest[1] = state->rest[7] + 2;
    state->rest[2] = state->rest[7] + 3;
    return state->rest[0] + state->rest[1] + state->rest[2];
  case WINDOW:
    state->window = value;
    state->rest[3] = state->rest[7] + 4;
    state->rest[4] = state->rest[7] + 5;
    state->rest[5] = state->rest[7] + 6;
    return state->rest[3] + state->rest[4] + state->rest[5];
  }
  return 0;
}

int main(int argc, char **argv) {
  struct state state = {0};
  FEATURE(A) int option_a = argc > 1;
  FEATURE(B) int option_b = argc > 2;
  set(&state, LEVEL, option_a);
  set(&state, WINDOW, option_b);
  if (state.level) // region {A}
    work(7);
  if (state.window) // region {B}
    work(8);
  return 0;
}
