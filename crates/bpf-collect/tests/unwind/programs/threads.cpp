// Threads, virtual calls, templates with a callback, an exception that was caught and rethrown.
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

volatile int sink;

extern "C" NOINLINE void leaf()
{
	usleep(2000);
	sink = sink + 1;
}

extern "C" NOINLINE void thrower()
{
	throw std::runtime_error("expected");
}

extern "C" NOINLINE void in_catch()
{
	try {
		thrower();
	} catch (const std::exception &) {
		for (;;)
			leaf();
	}
	sink = sink + 1;
}

struct Base {
	virtual void call() = 0;
	virtual ~Base() = default;
};

struct Derived : Base {
	void call() override;
	std::vector<int> values = { 1, 2, 3 };
};

extern "C" NOINLINE void by_virtual_call(Base &base)
{
	base.call();
	sink = sink + 1;
}

void Derived::call()
{
	in_catch();
	sink = sink + values[0];
}

extern "C" NOINLINE void in_thread()
{
	Derived derived;
	Base *volatile base = &derived; // of a type that the compiler cannot know
	by_virtual_call(*base);
	sink = sink + 1;
}

int main()
{
	std::thread one(in_thread), two(in_thread);
	one.join();
	two.join();
}
