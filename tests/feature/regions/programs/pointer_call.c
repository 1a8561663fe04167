#include "feature.h"

static void zip(int n) { work(n); }
static void unzip(int n) { work(n + 1); }
int main(int argc, char **argv) {
  FEATURE(Decompress) int decompress = argc > 1;
  void (*job)(int) = zip;
  if (decompress) // region {Decompress}
    job = unzip;
  work(0);
  job(3); // region {Decompress}
  return 0;
}
