// Opens a library after it was asked to (a signal), forks and runs a chain of both in parent and child.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

volatile int sink, asked;

NOINLINE void leaf(void)
{
	usleep(2000);
	sink++;
}

static void ask(int number)
{
	asked = 1;
}

NOINLINE int with_library(int (*call)(void (*)(void)))
{
	return call(leaf) + sink;
}

int main(int argc, char **argv)
{
	signal(SIGUSR1, ask);
	while (!asked)
		usleep(1000);
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return 1;
	int (*call)(void (*)(void)) = dlsym(library, "in_library");
	fork();
	return with_library(call) + sink;
}
