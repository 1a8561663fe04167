// How decisions depend on options: each way is told, of several the strongest.
#include "feature.h"

extern int data(int);

static int mode;
static const int table[4] = {1, 2, 3, 4};
static int queue[16];

static int half(int value) { return value / 2; }

int main(int argc, char **argv) {
  FEATURE(L) int level = argc;
  FEATURE(M) int mask = argc + 1;
  FEATURE(Q) int quick = argc > 2;
  int copy = level;
  if (copy > 3) // region {L=direct}
    work(1);
  if (mask & 4) // region {M=direct}
    work(2);
  if (!quick && copy) // region {L=direct,Q=direct}
    work(3);
  if (half(level) > 1) // region {L=computed}
    work(4);
  if (table[level & 3] > 2) // region {L=computed}
    work(5);
  if (quick) { // region {Q=direct}
    mode = 1;
    work(6);
  }
  if (mode) // region {Q=stored}
    work(7);
  queue[data(0) & 15] = level;
  if (queue[data(1) & 15] > 4) // region {L=content}
    work(8);
  if (mode + level > 2) // region {L=computed,Q=stored}
    work(9);
  return 0;
}
