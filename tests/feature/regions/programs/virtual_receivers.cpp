// A virtual function is entered with objects of classes that have it, not with all that the pointer may lead to.
#include "feature.h"

struct Config {
  FEATURE(Level) int level;
};
struct Runner {
  virtual ~Runner() {}
  virtual int start(int n) = 0;
  virtual int stop() { return 0; }
};
struct Real : Runner {
  const Config *config;
  Real(const Config *config) : config(config) {}
  int start(int n) override {
    if (n > config->level) // region {Level}
      work(1);
    return 1;
  }
};
struct Listed : Runner {
  const int *numbers;
  Listed(const int *numbers) : numbers(numbers) {}
  int start(int n) override {
    if (n > *numbers)
      work(2);
    return 0;
  }
  int stop() override { return *numbers; }
};

int main(int argc, char **argv) {
  Config config;
  config.level = argc;
  int number = atoi(argv[1]);
  Runner *runner;
  if (argv[2])
    runner = new Real(&config);
  else
    runner = new Listed(&number);
  runner->start(7);
  if (runner->stop())
    work(3);
  return 0;
}
