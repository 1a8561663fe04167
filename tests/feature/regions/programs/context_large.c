#include "feature.h"

static int mix(int x, int y) {
  int sum = 0;
  for (int i = 0; i < 10; i++) {
    work(i);
    sum += i * x;
    sum ^= sum << 3;
    sum ^= sum >> 5;
    if (sum > 100000)
      sum -= 77777;
    if (sum < -100000)
      sum += 55555;
    work(sum & 3);
    sum += 1;
    work(sum & 7);
    sum *= 3;
    work(y & 1);
    sum += i & 12;
    work(y & 2);
  }
  return sum;
}
int main(int argc, char **argv) {
  FEATURE(A) int a = argc > 1;
  FEATURE(B) int b = argc > 2;
  int p = mix(argc, b), q = mix(argc + 1, argc);
  if (p) 
    work(1);
  if (q)
    work(2);
  return a;
}
