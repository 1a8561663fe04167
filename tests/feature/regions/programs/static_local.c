#include "feature.h"

// model: variable A static_local.c enabled:cached
static int enabled(int n) {
  static int cached;
  if (n)
    cached = n;
  return cached;
}
int main(int argc, char **argv) {
  if (enabled(argc)) // region {A}
    work(1);
  return 0;
}
