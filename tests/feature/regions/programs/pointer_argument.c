#include "feature.h"

static void use(int on) {
  work(0);
  if (on) // region {A}
    work(1);
}
static void skip(int on) {
  work(0);
  if (on > 2)
    work(2);
}
static void apply(void (*f)(int), int value) {
  work(0);
  f(value);
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  apply(use, a);
  skip(argc);
  return 0;
}
