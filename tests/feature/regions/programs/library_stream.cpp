#include "feature.h"
#include <iostream>
#include <sstream>

int main(int argc, char **argv) {
  FEATURE(A) int level = argc;
  std::ostringstream text;
  text << level << " " << argv[0];
  std::cout << level << std::endl;
  if (text.fail())
    work(1);
  if (std::cout.good())
    work(2);
  if (level > 2) // region {A}
    std::cout << text.str() << "\n";
  return 0;
}
