#include "feature.h"

struct Policy {
  virtual ~Policy() {}
  virtual void run(int n) = 0;
};
struct Fast : Policy {
  void run(int n) override { work(n); }
};
struct Small : Policy {
  void run(int n) override { work(2 * n); }
};
int main(int argc, char **argv) {
  FEATURE(A) bool a = argc > 1;
  Policy *policy;
  if (a) // region {A}
    policy = new Fast;
  else
    policy = new Small;
  policy->run(3); // region {A}
  return 0;
}
