#include "feature.h"
#include <map>
#include <string>
#include <unordered_map>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::map<std::string, int> with, without;
  with[argv[0]] = level;
  without[argv[0]] = argc;
  std::unordered_map<int, int> hashed, plain;
  hashed[argc] = level;
  plain[argc] = argc;
  if (with[argv[1]] > 3) // region {A=direct}
    work(1);
  if (without[argv[1]] > 3)
    work(2);
  if (hashed[argc + 1] > 3) // region {A=content}
    work(3);
  if (plain[argc + 1] > 3)
    work(4);
  return 0;
}
