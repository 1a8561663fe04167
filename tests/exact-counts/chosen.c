/* Calls each function a million times for little, and rarely for long; prints how long each took, ns, by the CPU's clock.
 * usage: chosen */
#include <stdio.h>
#include <time.h>

unsigned chosen(unsigned), jumps(unsigned);

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long measure(unsigned (*call)(unsigned))
{
	long begin = now();

	for (int i = 1; i <= 1000000; i++)
		call(i % 50000 ? 4 : 20000000);
	return now() - begin;
}

static unsigned call_chosen(unsigned n)
{
	return chosen(n) + 1;
}

static unsigned call_jumps(unsigned n)
{
	return jumps(n) + 1;
}

int main(void)
{
	printf("chosen %ld\n", measure(call_chosen));
	printf("jumps %ld\n", measure(call_jumps));
	return 0;
}
