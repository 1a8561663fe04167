// Code made at run time that keeps frame pointers, called from and calling code that does not.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

NOINLINE void leaf(void)
{
	usleep(2000);
	sink++;
}

NOINLINE void callback(void)
{
	for (;;)
		leaf();
}

NOINLINE int with_generated(void (*code)(void (*)(void)))
{
	code(callback);
	return sink;
}

int main(void)
{
	// push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(memory + 100, code, sizeof code);
	return with_generated((void (*)(void (*)(void)))(memory + 100)) + sink;
}
