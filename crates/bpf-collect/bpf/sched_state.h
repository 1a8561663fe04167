/*
 * The state machine of scheduler criticality, in plain C: the programs in the kernel run it under a lock, tests drive
 * it in user space against an exact model.
 *
 * After "GAPP: A Fast Profiler for Detecting Serialization Bottlenecks in Parallel Linux Applications" (ICPE '20), made
 * exact: the application's (time, active, criticality) change as one unit at *every* change of the number of active
 * threads, wake-ups included, and each active thread gains what the shared clock gained while it was active:
 *
 *     d(criticality) = dt / active     while active > 0
 *     d(idle)        = dt              while active = 0, charged to the wait whose end makes it 1 again
 *
 * so that the sum over threads is the busy time. Division leaves a remainder of the fixed point's last digit; it is
 * carried on (`carry`), so the sum does not drift however many events there are.
 *
 * The caller's duties: one clock's functions are called one at a time; a thread belongs to one clock.
 */
#ifndef TRANSECT_SCHED_STATE_H
#define TRANSECT_SCHED_STATE_H

#include "sched_abi.h"

#define SCHED_INLINE static inline __attribute__((always_inline))

/* An application: all threads that count together. Zero is its initial state. */
struct sched_clock {
	__u32 active;
	__u32 started; /* there was an active thread */
	__u64 time; /* of the last change */
	__u64 criticality; /* fixed point: the integral of dt / active */
	__u64 low; /* fixed point: of it, while fewer threads were active than there are CPUs */
	__u64 carry; /* fixed point: what division left over, less than `active` */
	__u64 busy; /* ns with active > 0 */
	__u64 idle; /* ns with active = 0, between the first activity and the last */
	__u64 idle_since; /* when active became 0 */
	__u64 histogram[SCHED_MAX_PARALLELISM]; /* ns at each number of active threads */
};

/* What one thread has of it. Zero is its initial state: blocked. */
struct sched_thread {
	__u64 gained, gained_low; /* fixed point: in slices that have ended */
	__u64 since, since_low; /* the clock's criticality and low when the open slice began */
	__u64 sampled; /* criticality at the last sample */
	__u64 sampled_active, sampled_running; /* active time, and time on a CPU, at the last sample */
	__u64 changed; /* when it last became active or blocked */
	__u64 on_cpu_since; /* when it last got a CPU; 0 while it has none */
	__u64 active_ns, running_ns, blocked_ns; /* in intervals that have ended */
	__u32 active;
	__u32 seen; /* an event told what it does; until then `active` is what the seeding found */
};

/* The clock at one instant. */
struct sched_instant {
	__u64 time;
	__u64 criticality, low;
	__u64 idle_ended; /* idle time that this change ended */
	__u32 active; /* after the change */
};

/* Goes on to `now` and changes the number of active threads by `change`. Clocks of CPUs differ by a little:
 * time never goes back. */
SCHED_INLINE struct sched_instant sched_advance(struct sched_clock *clock, __u64 now, int change, __u32 cpus)
{
	struct sched_instant instant;
	__u32 active = clock->active, row = active < SCHED_MAX_PARALLELISM ? active : SCHED_MAX_PARALLELISM - 1;
	__u64 dt = 0;

	instant.idle_ended = 0;
	if (now > clock->time) {
		dt = clock->started ? now - clock->time : 0;
		clock->time = now;
	}
	if (active) {
		__u64 mass = (dt << SCHED_FRACTION_BITS) + clock->carry;
		/* Mostly one is, and a division takes longer than all the rest. */
		__u64 each = active == 1 ? mass : mass / active;

		clock->carry = mass - each * active;
		clock->criticality += each;
		if (active < cpus)
			clock->low += each;
		clock->busy += dt;
	} else {
		clock->idle += dt;
	}
	/* For the verifier of 6.1, which forgets the bound when the compiler copies `row`; the compiler must not know it. */
	__asm__ volatile("" : "+r"(row));
	clock->histogram[row & (SCHED_MAX_PARALLELISM - 1)] += dt;
	if (change > 0) {
		if (!active && clock->started)
			instant.idle_ended = clock->time - clock->idle_since;
		clock->started = 1;
		clock->active = active + 1;
	} else if (change < 0 && active) {
		clock->active = active - 1;
		if (active == 1)
			clock->idle_since = clock->time;
	}
	instant.time = clock->time;
	instant.criticality = clock->criticality;
	instant.low = clock->low;
	instant.active = clock->active;
	return instant;
}

/* The thread is active from now on. Nothing changes if it was. */
SCHED_INLINE struct sched_instant sched_activate(struct sched_clock *clock, struct sched_thread *thread, __u64 now,
						 __u32 cpus)
{
	struct sched_instant instant = sched_advance(clock, now, thread->active ? 0 : 1, cpus);

	thread->seen = 1;
	if (!thread->active) {
		thread->active = 1;
		thread->since = instant.criticality;
		thread->since_low = instant.low;
		if (thread->changed && instant.time > thread->changed)
			thread->blocked_ns += instant.time - thread->changed;
		thread->changed = instant.time;
	}
	return instant;
}

/* The thread waits from now on, or is gone. Nothing changes if it did. */
SCHED_INLINE struct sched_instant sched_block(struct sched_clock *clock, struct sched_thread *thread, __u64 now,
					      __u32 cpus)
{
	struct sched_instant instant = sched_advance(clock, now, thread->active ? -1 : 0, cpus);

	thread->seen = 1;
	if (thread->active) {
		thread->active = 0;
		thread->gained += instant.criticality - thread->since;
		thread->gained_low += instant.low - thread->since_low;
		thread->active_ns += instant.time - thread->changed;
		thread->changed = instant.time;
	}
	return instant;
}

/* The thread's state when it began to be followed: holds unless an event has changed it meanwhile. */
SCHED_INLINE struct sched_instant sched_seed(struct sched_clock *clock, struct sched_thread *thread, __u64 now, int active,
					     __u32 cpus)
{
	struct sched_instant instant;

	if (thread->seen)
		return sched_advance(clock, now, 0, cpus);
	/* The application runs already: that all its threads wait is idle time from the outset. */
	if (!clock->started) {
		clock->started = 1;
		clock->time = now;
		clock->idle_since = now;
	}
	instant = active ? sched_activate(clock, thread, now, cpus) : sched_advance(clock, now, 0, cpus);
	thread->seen = 0;
	thread->changed = instant.time;
	return instant;
}

/* Time from one instant to another, ns; none if it comes before. Here and below without branches: the verifier would follow
 * each of them both ways. */
SCHED_INLINE __u64 sched_elapsed(__u64 from, __u64 to)
{
	__u64 backwards = (__s64)(to - from) >> 63;

	/* The compiler would make a branch of it. */
	__asm__ volatile("" : "+r"(backwards));
	return (to - from) & ~backwards;
}

/* All ones if there is such an instant, 0 if it is 0. */
SCHED_INLINE __u64 sched_ones_if(__u64 instant)
{
	__u64 ones = (__s64)(instant | -instant) >> 63;

	__asm__ volatile("" : "+r"(ones));
	return ones;
}

/* It got a CPU. */
SCHED_INLINE void sched_get_cpu(struct sched_thread *thread, __u64 now)
{
	thread->on_cpu_since = now;
}

/* It lost its CPU. */
SCHED_INLINE void sched_leave_cpu(struct sched_thread *thread, __u64 now)
{
	thread->running_ns += sched_elapsed(thread->on_cpu_since, now) & sched_ones_if(thread->on_cpu_since);
	thread->on_cpu_since = 0;
}

/* Criticality of a thread when the clock shows `criticality`. */
SCHED_INLINE __u64 sched_criticality(const struct sched_thread *thread, __u64 criticality)
{
	return thread->gained + (thread->active && criticality > thread->since ? criticality - thread->since : 0);
}

/* The same at low parallelism. */
SCHED_INLINE __u64 sched_low(const struct sched_thread *thread, __u64 low)
{
	return thread->gained_low + (thread->active && low > thread->since_low ? low - thread->since_low : 0);
}

/* Time that it was active, up to `now`. */
SCHED_INLINE __u64 sched_active_ns(const struct sched_thread *thread, __u64 now)
{
	return thread->active_ns + (sched_elapsed(thread->changed, now) & -(__u64)thread->active);
}

/* Time on a CPU, up to `now`. */
SCHED_INLINE __u64 sched_running_ns(const struct sched_thread *thread, __u64 now)
{
	return thread->running_ns + (sched_elapsed(thread->on_cpu_since, now) & sched_ones_if(thread->on_cpu_since));
}

/* The clock's criticality at `now`, read without changing it, from what it last published. */
SCHED_INLINE __u64 sched_extrapolate(__u64 time, __u64 criticality, __u32 active, __u64 now)
{
	if (!active || now <= time)
		return criticality;
	return criticality + ((now - time) << SCHED_FRACTION_BITS) / active;
}

/* What a sample weighs: the criticality gained since the thread's last one, so that weights add up to it. */
SCHED_INLINE __u64 sched_sample(struct sched_thread *thread, __u64 criticality)
{
	__u64 now = sched_criticality(thread, criticality);
	__u64 weight = now > thread->sampled ? now - thread->sampled : 0;

	thread->sampled += weight;
	return weight;
}

/* The same, of `part` of the `whole` ns since that sample. */
SCHED_INLINE __u64 sched_sample_part(struct sched_thread *thread, __u64 criticality, __u64 part, __u64 whole)
{
	__u64 now = sched_criticality(thread, criticality);
	__u64 weight = now > thread->sampled ? now - thread->sampled : 0;

	/* Shares of 2^16, of whole ns: no product passes 64 bits in a day. */
	weight = (weight >> SCHED_FRACTION_BITS) * ((part << 16) / whole);
	thread->sampled += weight;
	return weight;
}

#endif
