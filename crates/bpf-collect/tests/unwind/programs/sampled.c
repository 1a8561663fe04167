// Never blocks: short functions, so that timers hit prologues, epilogues, linkage stubs and the vDSO.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE int third(int a, int b)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_nsec + a + b + abs(sink);
}

NOINLINE int second(int a, int b, int c)
{
	volatile char room[200];
	room[a & 127] = b;
	int d = third(a, b), e = third(b, c), f = third(c, a);
	return d * e + f * a + b * c + room[b & 127] + rand();
}

NOINLINE int first(int a)
{
	int x = second(a, a + 1, a + 2), y = second(a + 3, x, a + 4);
	return x + y + a;
}

int main(void)
{
	for (int i = 0;; i++)
		sink = first(i) + sink;
}
