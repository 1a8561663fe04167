// A character that an option cuts to seven bits, or makes small, is no flag that the option sets.
#include "feature.h"
#include <stdio.h>

FEATURE(S) static int strip;
FEATURE(L) static int lower;

__attribute__((noinline)) static void kinds(FILE *file) {
  int character;
  while ((character = getc(file)) != EOF) {
    if (strip) { // region {S}
      work(1);
      character &= 0x7f;
    }
    if (lower) { // region {L}
      work(2);
      character |= 0x20;
    }
    if (character == 'x')
      work(3);
  }
}

int main(int argc, char **argv) {
  strip = argc > 2;
  lower = argc > 3;
  kinds(stdin);
  return 0;
}
