// Filling and copying memory is work: a region, though no function of the program is called.
#include "feature.h"
#include <string.h>

static char big[1 << 16], copy[1 << 16];

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  FEATURE(B) int option_b = argc > 2;
  if (option_a) // region {A}
    memset(big, argc, sizeof big);
  if (option_b) // region {B}
    memcpy(copy, big, sizeof copy);
  return copy[argc] + big[argc];
}
