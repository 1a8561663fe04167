// Frames of all kinds: alloca, a realigned stack, many arguments on the stack, a function that does not return.
#include <alloca.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE void leaf(void)
{
	usleep(2000);
	sink++;
}

NOINLINE __attribute__((noreturn)) void noreturning(int i)
{
	for (;;)
		leaf();
}

NOINLINE void realigned(char *text)
{
	// Over-aligned variables and alloca together make gcc keep the frame's address in the frame.
	volatile __attribute__((aligned(128))) char block[256];
	char *more = alloca(strlen(text) + 100);
	memset((char *)block, 1, sizeof block);
	memset(more, 2, 100);
	sink += more[3] + block[5];
	noreturning(sink);
}

NOINLINE void with_alloca(int n)
{
	char *room = alloca(n);
	memset(room, 'a', n - 1);
	room[n - 1] = 0;
	realigned(room);
	sink += room[0];
}

NOINLINE int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{
	with_alloca(a + b + c + d + e + f + g + h + i + j);
	return sink + j;
}

NOINLINE int by_pointer(int (*call)(int, int, int, int, int, int, int, int, int, int))
{
	int a = call(10, 20, 30, 40, 50, 60, 70, 80, 90, 100);
	return a + call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}

int main(void)
{
	return by_pointer(many_arguments) + sink;
}
