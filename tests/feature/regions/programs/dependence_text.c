// An option's text is compared, copied and compared, read as a number, and appended to other text.
#include "feature.h"
#include <stdio.h>

static char name[32], path[64];

int main(int argc, char **argv) {
  FEATURE(F) const char *format = argv[1];
  if (!strcmp(format, "xz")) // region {F=direct}
    work(1);
  if (format[0] == 'l') // region {F=direct}
    work(2);
  strcpy(name, format);
  if (!strcmp(name, "gzip")) // region {F=direct}
    work(3);
  if (atoi(format) > 3) // region {F=computed}
    work(4);
  snprintf(path, sizeof path, "/tmp/%s", format);
  if (path[6] == 'x') // region {F=computed}
    work(5);
  return 0;
}
