// A program's own strdup copies with memcpy; the C library's tables of characters are read at the option's letters.
#include "feature.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
// model: variable Mode library_own_copy.c - option_mode

static const char *option_mode = "fast";

__attribute__((noinline)) static char *own_copy(const char *text) {
  size_t size = strlen(text) + 1;
  char *made = malloc(size);
  memcpy(made, text, size);
  return made;
}

int main(int argc, char **argv) {
  if (argc > 1)
    option_mode = argv[1];
  char *mode = own_copy(option_mode);
  if (strcmp(mode, "fast") == 0) // region {Mode}
    work(1);
  if (mode[0] == 'f') // region {Mode}
    work(2);
  if (isdigit((unsigned char)mode[1])) // region {Mode}
    work(3);
  if (argc > 2)
    work(4);
  return 0;
}
