/* One thread computes for three parts of four in one function and for one in another, and reads bytes one by one; then it
 * sleeps in a third, while the other thread waits for it. Without an argument nothing of that ends. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ul + t.tv_nsec;
}

/* CPU time is counted here, so that a busy machine changes no shares. */
#define UNTIL(ms, step) do { unsigned long end = now() + (ms) * 1000000ul; while (now() < end) step; } while (0)
#define WORK for (int i = 0; i < 20000; i++) sink = sink * 3 + i

__attribute__((noinline)) void often(int ms) { UNTIL(ms, WORK); }
__attribute__((noinline)) void seldom(int ms) { UNTIL(ms, WORK); }

__attribute__((noinline)) void read_bytes(int ms)
{
	char buffer[4096];
	int fd = open("/dev/zero", O_RDONLY);
	UNTIL(ms, for (int i = 0; i < 100; i++) if (read(fd, buffer, sizeof buffer) < 0) abort());
	close(fd);
}

__attribute__((noinline)) void rest(int ms)
{
	struct timespec t = { 0, ms * 1000000l };
	nanosleep(&t, 0);
}

__attribute__((noinline)) void wait_for_it(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void *other(void *none)
{
	wait_for_it();
	return none;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
	pthread_t thread;
	pthread_mutex_lock(&lock);
	pthread_create(&thread, 0, other, 0);
	for (int i = 0; i < rounds; i++) {
		often(30);
		seldom(10);
		read_bytes(20);
		rest(20);
	}
	pthread_mutex_unlock(&lock);
	pthread_join(thread, 0);
	return 0;
}
