/* A thread's own clocks at one instant, and what lies between two. */
#ifndef TRANSECT_THREAD_CLOCKS_H
#define TRANSECT_THREAD_CLOCKS_H

#include "sched_state.h"

struct thread_clocks {
	__u64 running, active, blocked;
};

SCHED_INLINE void read_clocks(struct thread_clocks *clocks, const struct sched_thread *thread, __u64 now)
{
	clocks->running = sched_running_ns(thread, now);
	clocks->active = sched_active_ns(thread, now);
	clocks->blocked = thread->blocked_ns + (sched_elapsed(thread->changed, now) & sched_ones_if(thread->changed) &
						((__u64)thread->active - 1));
}

/* Adds what lies between, `weight` times. */
SCHED_INLINE void add_clocks(struct thread_clocks *sum, const struct thread_clocks *from, const struct thread_clocks *to,
			     __u32 weight)
{
	sum->running += sched_elapsed(from->running, to->running) * weight;
	sum->active += sched_elapsed(from->active, to->active) * weight;
	sum->blocked += sched_elapsed(from->blocked, to->blocked) * weight;
}

#endif
