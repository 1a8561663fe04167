volatile int count;

int in_library(void (*call)(void))
{
	for (;;) {
		call();
		count++;
	}
}
