#include "feature.h"
#include <string>

struct Options {
  std::string name;
  int level;
  std::string output;
};
struct Result {
  std::string text;
  int count;
};
int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  Options options;
  options.name = argv[0];
  options.level = level;
  options.output = argv[1];
  Result result;
  result.text = options.name;
  result.count = argc;
  if (result.count > 2)
    work(1);
  if (result.text.empty())
    work(2);
  if (options.level > 2) // region {A}
    work(3);
  return 0;
}
