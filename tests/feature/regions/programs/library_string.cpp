#include "feature.h"
#include <string>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::string with(argv[0]), without(argv[0]);
  with += std::to_string(level);
  without += std::to_string(argc);
  std::string joined = with + "x", other = without.substr(1) + "y";
  if (with.size() > 3) // region {A}
    work(1);
  if (without.size() > 3)
    work(2);
  if (joined == "3x") // region {A}
    work(3);
  if (other.find("x") != std::string::npos)
    work(4);
  if (joined[0] == 'a') // region {A}
    work(5);
  return 0;
}
