#include "feature.h"
// model: variable A files_static/one.c - level
// model: variable B files_static/two.c - level
void one(int n);
void two(int n);
int main(int argc, char **argv) {
  one(argc);
  two(argc);
  return 0;
}
