/* The state machine of bpf/sched_state.h for tests in user space: one application with some threads. */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;

#include "sched_state.h"

#include <stdlib.h>

struct machine {
	struct sched_clock clock;
	__u32 cpus;
	struct sched_thread threads[];
};

struct machine *machine_new(__u32 threads, __u32 cpus)
{
	struct machine *machine = calloc(1, sizeof(*machine) + threads * sizeof(struct sched_thread));

	machine->cpus = cpus;
	return machine;
}

void machine_free(struct machine *machine)
{
	free(machine);
}

/* Idle time that the thread's wake-up ended. */
__u64 machine_activate(struct machine *machine, __u32 thread, __u64 now)
{
	return sched_activate(&machine->clock, &machine->threads[thread], now, machine->cpus).idle_ended;
}

void machine_block(struct machine *machine, __u32 thread, __u64 now)
{
	sched_block(&machine->clock, &machine->threads[thread], now, machine->cpus);
}

void machine_advance(struct machine *machine, __u64 now)
{
	sched_advance(&machine->clock, now, 0, machine->cpus);
}

void machine_get_cpu(struct machine *machine, __u32 thread, __u64 now)
{
	sched_get_cpu(&machine->threads[thread], now);
}

void machine_leave_cpu(struct machine *machine, __u32 thread, __u64 now)
{
	sched_leave_cpu(&machine->threads[thread], now);
}

/* As the timer's program does: from what the clock last published. */
__u64 machine_sample(struct machine *machine, __u32 thread, __u64 now)
{
	const struct sched_clock *clock = &machine->clock;

	return sched_sample(&machine->threads[thread],
			    sched_extrapolate(clock->time, clock->criticality, clock->active, now));
}

struct clock_values {
	__u64 time, criticality, low, busy, idle;
	__u32 active;
};

void machine_clock(const struct machine *machine, struct clock_values *values)
{
	const struct sched_clock *clock = &machine->clock;

	*values = (struct clock_values){clock->time, clock->criticality, clock->low, clock->busy, clock->idle, clock->active};
}

__u64 machine_histogram(const struct machine *machine, __u32 n)
{
	return machine->clock.histogram[n];
}

struct thread_values {
	__u64 criticality, low, active_ns, running_ns, blocked_ns;
	__u32 active;
};

/* As the clock stands. */
void machine_thread(const struct machine *machine, __u32 index, struct thread_values *values)
{
	const struct sched_clock *clock = &machine->clock;
	const struct sched_thread *thread = &machine->threads[index];

	*values = (struct thread_values){
		sched_criticality(thread, clock->criticality),
		sched_low(thread, clock->low),
		sched_active_ns(thread, clock->time),
		sched_running_ns(thread, clock->time),
		thread->blocked_ns,
		thread->active,
	};
}
