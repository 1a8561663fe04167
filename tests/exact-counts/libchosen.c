/* Exported functions whose code goes by other names: one that the loader chooses, one that jumps on. */
static volatile unsigned sink;

__attribute__((noinline)) static unsigned spin_here(unsigned rounds)
{
	unsigned x = rounds;

	for (unsigned i = 0; i < rounds; i++)
		x = x * 1103515245u + 12345u;
	return sink = x;
}

static unsigned (*choose(void))(unsigned)
{
	return spin_here;
}

unsigned chosen(unsigned) __attribute__((ifunc("choose")));

__attribute__((noinline, noclone)) static unsigned spin_there(unsigned rounds)
{
	unsigned x = rounds + 1;

	for (unsigned i = 0; i < rounds; i++)
		x = x * 1103515245u + 12345u;
	return sink = x;
}

unsigned jumps(unsigned rounds)
{
	return spin_there(rounds);
}
