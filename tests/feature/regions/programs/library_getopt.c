#include "feature.h"

#include <getopt.h>
// model: variable Keep library_getopt.c - keep
// model: variable Level library_getopt.c - level
static int keep, level = 6, verbose;
int main(int argc, char **argv) {
  int c;
  while ((c = getopt(argc, argv, "kvl:")) != -1)
    switch (c) {
    case 'k':
      keep = 1;
      break;
    case 'v':
      verbose++;
      break;
    case 'l':
      level = atoi(optarg);
      break;
    }
  if (keep) // region {Keep}
    work(1);
  if (level > 8) // region {Level}
    work(2);
  if (verbose)
    work(3);
  return 0;
}
