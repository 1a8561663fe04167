#include "feature.h"

#include <unistd.h>
int main(int argc, char **argv) {
  FEATURE(Stdout) int to_stdout = argc > 1;
  char buffer[16] = "text";
  int fd = to_stdout ? 1 : 2;
  if (write(fd, buffer, 4) != 4)
    work(1);
  if (fd == 1) // region {Stdout}
    work(2);
  return 0;
}
