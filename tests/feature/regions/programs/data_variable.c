// Of a variable that holds data, too, a constant that an option chose and a number that is computed from one tell a size or a
// position at most; the option itself is compared wherever it is compared.
#include "feature.h"

extern int data(int);

int main(int argc, char **argv) {
  FEATURE(Block) int block = argc;
  FEATURE(Fast) int fast = argc > 2;
  const int limit = block * 1000;
  int left = data(0);
  if (left > limit) // region {Block}
    work(1);
  while (left > 0) {
    const int size = left < limit ? left : limit;
    for (int i = 0; i < size; ++i)
      work(2);
    left -= data(1);
  }
  const int number = data(2) > 3 ? block : data(3);
  if (number > 2) // region {Block}
    work(3);
  int position = data(4);
  if (fast) { // region {Fast}
    position = -1;
    work(4);
  }
  if (position > 3)
    work(5);
  if (position == -1) // region {Fast}
    work(6);
  int width = 80;
  if (fast) { // region {Fast}
    width = 40;
    work(7);
  }
  if (data(5) > width) // region {Fast}
    work(8);
  if (data(6) > width + 2) // region {Fast}
    work(9);
  return 0;
}
