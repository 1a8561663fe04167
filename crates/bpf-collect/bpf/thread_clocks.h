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
	clocks->blocked = thread->blocked_ns;
	if (!thread->active && thread->changed && now > thread->changed)
		clocks->blocked += now - thread->changed;
}

/* Adds what lies between, `weight` times. */
SCHED_INLINE void add_clocks(struct thread_clocks *sum, const struct thread_clocks *from, const struct thread_clocks *to,
			     __u32 weight)
{
	if (to->running > from->running)
		sum->running += (to->running - from->running) * weight;
	if (to->active > from->active)
		sum->active += (to->active - from->active) * weight;
	if (to->blocked > from->blocked)
		sum->blocked += (to->blocked - from->blocked) * weight;
}

#endif
