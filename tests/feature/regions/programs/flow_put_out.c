// What an option adds to the output as bytes is data: what reads the buffer later does not run because of the option.
#include "feature.h"

static unsigned char buffer[64];
static unsigned used;

static void put_byte(int c) { buffer[used++] = (unsigned char)c; }

static int parse(void) {
  int found = 0;
  for (unsigned i = 0; i < used; ++i)
    if (buffer[i] == 31)
      found = i;
  return found;
}

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  put_byte(31);
  put_byte(option_a * 2 + argc);
  if (option_a) // region {A}
    work(2);
  return parse();
}
