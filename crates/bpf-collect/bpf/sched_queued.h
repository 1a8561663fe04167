/*
 * Time in which a thread could have run and had no CPU: no timer samples it, and the next sample that meets the thread
 * may be anywhere, as when it yields in a loop on a busy machine. Another stack stands for it: that with which it waited before or
 * lost its CPU, known when it gets one again. Where there is none, and most of what it has gained since its last sample
 * is such time, that with which it leaves its CPU stands for all of it.
 */
#ifndef TRANSECT_SCHED_QUEUED_H
#define TRANSECT_SCHED_QUEUED_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_activity.h"
#include "sched_maps.h"
#include "sched_place.h"
#include "sched_rate.h"
#include "sched_slot.h"
#include "sched_stack.h"
#include "system_call_state.h"

/* ns that are worth a stack; and it ran for less than one part of it. */
#define QUEUED_LEAST 2000000
#define QUEUED_PARTS 4
/* ns without a CPU: as many are worth a record where the stack is known, fewer have one by chance, ... */
#define QUEUED_WORTH 250000
/* ... and so few are left to the next sample. */
#define QUEUED_BRIEF 10000

/* Whether `queued` ns without a CPU have a record of their own: what is shorter than what is worth one by chance, in proportion to its
 * length. */
static __always_inline bool has_record(__u64 queued, __u64 now)
{
	struct sched_rate *rate = rate_of(RATE_QUEUED);
	__u64 worth;

	if (!rate)
		return true;
	worth = rate_scale(rate, now) * (QUEUED_WORTH / RATE_UNIT);
	/* What does not fit 32 bits takes longer than any run queue. */
	if (worth > 0xffffffff)
		worth = 0xffffffff;
	if (queued < worth && bpf_get_prandom_u32() % worth >= queued)
		return false;
	rate->records++;
	return true;
}

/* Time without a CPU that waits for a record. */
static __always_inline __u64 untold_ns(const struct sched_slot *slot)
{
	return slot->queued_ns + slot->preempted_queued_ns;
}

static __always_inline bool was_queued(const struct sched_slot *slot, __u64 now)
{
	const struct sched_thread *thread = &slot->thread;
	__u64 active = sched_active_ns(thread, now) - thread->sampled_active;

	active = active > untold_ns(slot) ? active - untold_ns(slot) : 0;
	return active >= QUEUED_LEAST && (thread->running_ns - thread->sampled_running) * QUEUED_PARTS < active;
}

/* What the thread has gained in the last `queued` ns was gained with this stack, by their part of its active time since its
 * last sample. */
__noinline int stand_for_queued(struct sched_slot *slot, __u64 now, __u64 stack, __u64 queued)
{
	struct clock_reading clock;
	struct sched_sample *record;
	__u64 active;

	if (!slot || !stack)
		return 0;
	active = sched_active_ns(&slot->thread, now) - slot->thread.sampled_active;
	/* The next sample has it. */
	if (!read_clock(slot, now, &clock))
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&lost.samples, 1);
		return 0;
	}
	record->type = SCHED_RECORD_SAMPLE;
	record->task = slot->task;
	record->time = now;
	if (queued < active) {
		record->criticality = sched_sample_part(&slot->thread, clock.criticality, queued, active);
		record->active_ns = queued;
	} else {
		record->criticality = sched_sample(&slot->thread, clock.criticality);
		record->active_ns = active;
		slot->thread.sampled_running = slot->thread.running_ns;
	}
	slot->thread.sampled_active += record->active_ns;
	record->stack = stack;
	record->user_ip = 0;
	record->n = clock.active;
	record->in_kernel = 0;
	record->call = SYSTEM_CALL_UNKNOWN;
	record->period = 0;
	record->queued = 1;
	record->unused = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The current thread leaves its CPU. */
__noinline int leave_queued(struct sched_slot *slot, __u64 now)
{
	struct user_registers user;

	if (!slot)
		return 0;
	registers_of(bpf_get_current_task_btf(), &user);
	return stand_for_queued(slot, now, take_stack(slot->tgid, 0, &user), ~0ull);
}

/* Since when the thread may have had no CPU, which it gets now. */
static __always_inline __u64 queued_since(const struct sched_slot *slot)
{
	return slot->preempted_since ? slot->preempted_since : slot->thread.changed;
}

/* The thread gets a CPU: again, or for the first time since its wait. A record stands for such time before it that had none, too:
 * where a thread waits, and where it loses its CPU, are not the same places. */
__noinline int end_queued(struct sched_slot *slot, __u64 now)
{
	__u64 stack = 0, queued, *untold;

	if (!slot)
		return 0;
	untold = &slot->queued_ns;
	if (slot->preempted_since) {
		stack = slot->preempted_stack;
		untold = &slot->preempted_queued_ns;
	} else if (slot->thread.running_ns == slot->slice_running && slot->wait.end >= slot->thread.changed) {
		stack = stack_of_wait(slot);
	}
	if (!stack)
		return 0;
	queued = now - queued_since(slot);
	*untold += queued;
	/* Stacks of lost CPUs are taken now and then, whatever the time that follows. */
	if (has_record(slot->preempted_since ? *untold : queued, now)) {
		stand_for_queued(slot, now, stack, *untold);
		*untold = 0;
	}
	return 0;
}

#endif
