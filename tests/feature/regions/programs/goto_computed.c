#include "feature.h"

int main(int argc, char **argv) {
  FEATURE(A) int option = argc % 3;
  static void *const table[] = {&&fast, &&slow, &&slow};
  goto *table[option]; // region {A}
fast:
  work(1);
  goto done;
slow:
  work(2);
done:
  work(3);
  return 0;
}
