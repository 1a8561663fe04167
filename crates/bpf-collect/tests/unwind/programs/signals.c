// A signal handler that blocks, on the thread's own stack or (with an argument) on an alternate one.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE void leaf(void)
{
	usleep(2000);
	sink++;
}

NOINLINE void handler(int number)
{
	leaf();
	sink++;
}

NOINLINE void busy(int n)
{
	for (;;)
		for (volatile int i = 0; i < n; i++)
			;
}

NOINLINE void work(void)
{
	busy(1000);
	sink++;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = handler };
	if (argc > 1) {
		stack_t stack = { .ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ };
		sigaltstack(&stack, 0);
		action.sa_flags = SA_ONSTACK;
	}
	sigaction(SIGALRM, &action, 0);
	struct itimerval timer = { { 0, 5000 }, { 0, 5000 } };
	setitimer(ITIMER_REAL, &timer, 0);
	work();
	return sink;
}
