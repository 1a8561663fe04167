// A feature variable may be a structure: all of its fields are it.
#include "feature.h"
#include <string>
// model: member Limits options limits
// model: member Name options name

struct range { int soft, hard; };
struct options { int verbose; range limits; std::string name; };

__attribute__((noinline)) static void use(options &chosen) {
  if (chosen.limits.soft) // region {Limits}
    work(1);
  if (chosen.limits.hard) // region {Limits}
    work(2);
  if (chosen.name.size() > 3) // region {Name}
    work(3);
  if (chosen.verbose)
    work(4);
}

int main(int argc, char **argv) {
  static options chosen;
  chosen.limits = {argc > 1, argc > 2};
  chosen.verbose = argc > 3;
  chosen.name = argv[0];
  use(chosen);
  return 0;
}
