// Recursion of the depth that is given.
#include <stdlib.h>
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) int recurse(int depth)
{
	if (depth == 1) {
		for (;;)
			usleep(2000);
	}
	return recurse(depth - 1) + sink;
}

int main(int argc, char **argv)
{
	return recurse(atoi(argv[1])) + sink;
}
