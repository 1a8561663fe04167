// A variable that is used under an option's branch only has the same values whenever it is there.
#include "feature.h"

static void append(const char *text, char **data, unsigned long *size) {
  if ((*size & (*size - 1)) == 0)
    *data = realloc(*data, *size ? *size * 2 : 1);
  (*data)[(*size)++] = *text;
  if (*text)
    append(text + 1, data, size);
}

int main(int argc, char **argv) {
  FEATURE(Fast) int fast = argc > 2;
  int outer = argc;
  if (fast) { // region {Fast}
    char *data = 0;
    unsigned long size = 0;
    append(argv[0], &data, &size);
    work((int)size);
    outer = 1;
    work(3);
  }
  if (outer == 1) // region {Fast}
    work(4);
  return 0;
}
