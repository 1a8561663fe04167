// What an allocator writes into its memory before it hands it out is there.
#include "feature.h"

#include <stdlib.h>

struct node {
  int value;
};

static struct node *made(int value) {
  struct node *node = malloc(sizeof *node);
  if (!node)
    abort();
  node->value = value;
  return node;
}

static struct node *(*volatile maker)(int) = made;

int main(int argc, char **argv) {
  FEATURE(A) int option_a = argc > 1;
  struct node *node = maker(option_a);
  if (node->value) // region {A}
    work(1);
  return 0;
}
