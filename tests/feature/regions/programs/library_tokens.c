// Parts of a text that the C library cuts out.
#define _GNU_SOURCE
#include "feature.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// model: variable List library_tokens.c - option_list

static const char *option_list = "a,b";

int main(int argc, char **argv) {
  if (argc > 1)
    option_list = argv[1];
  char *cut = strdup(option_list), *rest = cut, *part = strsep(&rest, ",");
  if (part[0] == 'a') // region {List}
    work(1);
  char *token = strtok(strdup(option_list), ",");
  token = strtok(NULL, ",");
  if (token && token[0] == 'b') // region {List}
    work(2);
  char *end;
  strtol(option_list, &end, 16);
  if (end[0] == ',') // region {List}
    work(3);
  char *made;
  if (asprintf(&made, "%s!", option_list) < 0)
    return 1;
  if (made[0] == 'a') // region {List}
    work(4);
  return 0;
}
