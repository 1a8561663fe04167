#include "feature.h"

static void heavy(int on) {
  work(0);
  if (on) // region {A}
    work(1);
}
static void light(int on) {
  work(0);
  if (on)
    work(1);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  heavy(a);
  light(argc);
  return 0;
}
