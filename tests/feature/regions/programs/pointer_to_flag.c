// A pointer in memory that points to a variable is no walking pointer: the variable is set through it.
#include "feature.h"

static int flag;
static unsigned char mode;
static int *to_flag = &flag;
static unsigned char *to_mode = &mode;

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  FEATURE(B) int option_b = argc > 2;
  if (option_a) // region {A}
    *to_flag = 1;
  *to_mode = option_b * 3;
  if (flag) // region {A}
    work(1);
  if (mode) // region {B}
    work(2);
  return 0;
}
