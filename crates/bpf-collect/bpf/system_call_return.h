/*
 * A system call that has ended, and whose thread loses its CPU before it is back in user space: the kernel looks for others to run
 * last of all. To the program that is the call's time, so the call is open again until the thread has a CPU.
 */
#ifndef TRANSECT_SYSTEM_CALL_RETURN_H
#define TRANSECT_SYSTEM_CALL_RETURN_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "system_call_state.h"
#include "system_call_time.h"

/* The current thread is still runnable and calls the scheduler itself: within a call, or on its return from one, or from an
 * interrupt, which leaves no call's number in the registers. */
__noinline int reopen_call(struct sched_slot *slot, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	long id = (__s32)registers->orig_ax;
	struct system_call_state *state;

	if (!slot || id < 0)
		return 0;
	state = system_call_state_numbered(slot->number);
	if (!state || !is_met(state, slot) || state->number != SYSTEM_CALL_NONE)
		return 0;
	state->number = is_own_call(registers) ? SYSTEM_CALL_OWN : numbered_call(task, id);
	state->timing = SYSTEM_CALL_RETURNS;
	state->weight = 1;
	state->continued = 1;
	read_clocks(&state->entered, &slot->thread, now);
	slot->call_returns = 1;
	return 0;
}

/* The thread has a CPU again. */
__noinline int end_reopened_call(struct sched_slot *slot, __u64 now)
{
	struct system_call_state *state;
	struct thread_clocks clocks;

	if (!slot)
		return 0;
	slot->call_returns = 0;
	state = system_call_state_numbered(slot->number);
	if (!state || !is_met(state, slot) || state->timing != SYSTEM_CALL_RETURNS || state->number >= SYSTEM_CALL_PAUSED)
		return 0;
	read_clocks(&clocks, &slot->thread, now);
	count_call(state, state->number, 0, &clocks);
	state->number = SYSTEM_CALL_NONE;
	state->continued = 0;
	return 0;
}

#endif
