// Text that becomes an option's value is compared before it is stored, or after.
#include "feature.h"

struct options {
  const char *language;
  int level;
};
static struct options options;
static int flags;

// model: member language options language

__attribute__((noinline)) static void setLanguage(const char *name) {
  if (options.language) // region {language}
    return;
  options.language = name;
  if (strcmp(name, "c") == 0) { // of the region around it
    flags = 1;
    work(2);
  }
}

int main(int argc, char **argv) {
  setLanguage(argv[1]);
  if (flags) // region {language}
    work(1);
  return 0;
}
