// A store through a pointer that may also point to a literal does not change the literal.
#include "feature.h"
#include <stdlib.h>
#include <string.h>

struct text { char *bytes; int owned; };

static void make(struct text *made, int many) {
  made->bytes = many > 1 ? malloc(16) : "none";
  made->owned = many > 1;
}

int main(int argc, char **argv) {
  FEATURE(A) int option_a = atoi(argv[0]);
  struct text text;
  make(&text, argc);
  if (text.owned)
    memcpy(text.bytes, &option_a, sizeof option_a);
  const char *literal = getenv("Q") ? "none" : "more";
  if (literal[argc & 3] == 'n')
    work(1);
  if (option_a) // region {A}
    work(2);
  return 0;
}
