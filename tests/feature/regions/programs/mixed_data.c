// A constant that an option chose is none any more once it is added to data, or to a pointer into data.
#include "feature.h"

static const char *rest(const char *text, int skip) { return text + skip; }

int main(int argc, char **argv) {
  FEATURE(Wide) int wide = argc > 2;
  FEATURE(Level) int level = argc;
  int margin = 0;
  if (wide) { // region {Wide}
    margin = 4;
    work(1);
  }
  if (margin) // region {Wide}
    work(2);
  if (margin + 1 > 2) // region {Wide}
    work(3);
  if (margin + level > 3) // region {Level,Wide}
    work(4);
  int width = (int)strlen(argv[0]) + margin;
  if (width > 80)
    work(5);
  const char *text = rest(argv[0], margin);
  if (text > argv[1])
    work(6);
  const char *mark = 0;
  if (wide) { // region {Wide}
    mark = strrchr(argv[0], '/');
    work(7);
  }
  if (mark) // region {Wide}
    work(8);
  if (mark - argv[0] > 3)
    work(9);
  return 0;
}
