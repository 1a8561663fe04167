#include "feature.h"

FEATURE(M) static char *method;
int main(int argc, char **argv) {
  method = malloc(strlen(argv[1]) + 1);
  strcpy(method, argv[1]);
  if (method[0] == 'f') // region {M}
    work(1);
  if (strcmp(method, "slow") == 0) // region {M}
    work(2);
  return 0;
}
