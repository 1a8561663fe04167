/*
 * Preemption: a thread loses its CPU although it could go on. The stack at which it lost it holds the time until it
 * gets one again, which samples can't tell: they are taken of threads that run.
 */
#ifndef TRANSECT_SCHED_PREEMPTED_H
#define TRANSECT_SCHED_PREEMPTED_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_rate.h"
#include "sched_stack.h"
#include "system_call_state.h"

/* ns: a thread's stacks are this far apart. Where it got a CPU back soon the last time, a stack takes more than the time
 * is worth: it yields in a loop, or hands work to and fro. */
#define PREEMPTED_PERIOD 500000
#define PREEMPTED_SOON 400000
#define PREEMPTED_SELDOM 4000000

/* The current thread leaves its CPU and is still runnable. */
static __noinline int begin_preempted(void *context, struct sched_slot *slot, struct task_struct *task, __u64 now)
{
	struct user_registers user;
	struct sched_rate *rate;
	__u32 parts;

	slot->preempted_untold = now;
	if (now - slot->preempted_last < (slot->preempted_ns < PREEMPTED_SOON ? PREEMPTED_SELDOM : PREEMPTED_PERIOD))
		return 0;
	rate = rate_of(RATE_PREEMPTED);
	parts = rate_scale(rate, now) / RATE_UNIT;
	if (parts > 1 && bpf_get_prandom_u32() % parts)
		return 0;
	slot->preempted_untold = 0;
	if (rate)
		rate->records++;
	registers_of(task, &user);
	slot->preempted_stack = take_stack(slot->tgid, kernel_half(context), &user);
	slot->preempted_call = open_call(slot, true);
	slot->preempted_last = now;
	slot->preempted_since = now;
	return 0;
}

/* It has a CPU again, and no stack was taken: the next one where it loses its CPU tells of that. */
static __always_inline void end_untold(struct sched_slot *slot, __u64 now)
{
	slot->preempted_queued_ns += sched_elapsed(slot->preempted_untold, now);
	slot->preempted_untold = 0;
}

/* It has a CPU again. */
__noinline int end_preempted(struct sched_slot *slot, __u64 now)
{
	struct sched_preempted *record;

	if (!slot)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (record) {
		record->type = SCHED_RECORD_PREEMPTED;
		record->task = slot->task;
		record->begin = slot->preempted_since;
		record->end = now;
		record->stack = slot->preempted_stack;
		record->call = slot->preempted_call;
		record->unused = 0;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		__sync_fetch_and_add(&lost.samples, 1);
	}
	slot->preempted_ns = now - slot->preempted_since;
	slot->preempted_since = 0;
	return 0;
}

#endif
