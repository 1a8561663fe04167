#include "feature.h"
#include <time.h>

int other(int count) {
  struct timespec now = {count, 0};
  if (now.tv_sec > 2)
    work(3);
  return now.tv_nsec;
}
