// Two structures in one variable have the same fields: the link makes them one type, whose names the variable keeps.
#include "feature.h"
#include <sys/time.h>
#include <time.h>
// model: member Verbose options verbose
// model: member Flags options flags

static struct options { int verbose; struct timespec start; struct timeval timeout; int flags; } chosen;
int other(int count);

int main(int argc, char **argv) {
  clock_gettime(CLOCK_REALTIME, &chosen.start);
  chosen.timeout.tv_sec = argc;
  chosen.verbose = argc > 1;
  chosen.flags = argc > 2;
  if (chosen.verbose) // region {Verbose}
    work(1);
  if (chosen.flags) // region {Flags}
    work(2);
  return other(argc);
}
