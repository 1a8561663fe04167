/*
 * Time in which a thread could have run and had no processor: no timer samples it, and the next sample that meets the thread
 * may be anywhere, as when it yields in a loop on a busy machine. Where most of what it has gained since its last sample is
 * such time, the stack with which it leaves its processor stands for it.
 */
#ifndef TRANSECT_SCHED_QUEUED_H
#define TRANSECT_SCHED_QUEUED_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_activity.h"
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_stack.h"
#include "system_call_state.h"

/* ns that are worth a stack; and it ran for less than one part of it. */
#define QUEUED_LEAST 2000000
#define QUEUED_PARTS 4

static __always_inline bool was_queued(const struct sched_thread *thread, __u64 now)
{
	__u64 active = sched_active_ns(thread, now) - thread->sampled_active;

	return active >= QUEUED_LEAST && (thread->running_ns - thread->sampled_running) * QUEUED_PARTS < active;
}

/* The current thread leaves its processor. */
static __noinline int stand_for_queued(void *context, struct sched_slot *slot, struct task_struct *task, __u64 now)
{
	struct clock_reading clock;
	struct sched_sample *record;
	struct user_registers user;
	__u64 stack, active = sched_active_ns(&slot->thread, now);

	/* The next sample has it. */
	if (!read_clock(slot, now, &clock))
		return 0;
	registers_of(task, &user);
	stack = take_stack(context, false, slot->tgid, &user);
	if (!stack)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&lost.samples, 1);
		return 0;
	}
	record->type = SCHED_RECORD_SAMPLE;
	record->task = slot->task;
	record->time = now;
	record->criticality = sched_sample(&slot->thread, clock.criticality);
	record->active_ns = active - slot->thread.sampled_active;
	record->stack = stack;
	record->user_ip = user.ip;
	record->n = clock.active;
	record->in_kernel = 0;
	record->call = SYSTEM_CALL_UNKNOWN;
	record->period = 0;
	record->queued = 1;
	record->unused = 0;
	slot->thread.sampled_active = active;
	slot->thread.sampled_running = slot->thread.running_ns;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
