/* What the system call programs keep of each thread, and which call it is in. */
#ifndef TRANSECT_SYSTEM_CALL_STATE_H
#define TRANSECT_SYSTEM_CALL_STATE_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_abi.h"
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_wait.h"
#include "thread_clocks.h"

/* The programs are attached. Set by user space. */
__u32 system_calls_on = 0;

/* Rows of the hash map that are not of a system call. */
#define SYSTEM_CALL_ROW_THREAD 0xfffffffcu /* last row of a thread that has ended: the times in which its calls were counted */
#define SYSTEM_CALL_ROW_USER_FAULTS 0xfffffffbu
#define SYSTEM_CALL_ROW_KERNEL_FAULTS 0xfffffffau
/* All calls that the flow agent makes. */
#define SYSTEM_CALL_OWN 0xfffffff9u

struct system_call_sum {
	__u32 number; /* 0 with count 0: free */
	__u32 random; /* state of the generator that chooses which calls are timed */
	__u64 count;
	struct thread_clocks time;
	__u64 weighed_at; /* when the weight was last decided */
	__u64 weighed_count; /* and how many calls there were then */
	__u32 weight; /* each call to come is timed with probability 1 / weight, and counts weight times */
	__u32 estimated; /* some were counted only: the time of others stands for theirs */
};

/* A thread's calls of one kind that come faster than this apart, ns, are not all timed: two readings of the clock for each
 * would cost more than the budget. Those that block are. */
#define SYSTEM_CALL_PERIOD 20000
#define SYSTEM_CALL_MAX_WEIGHT 64
/* The weight holds for so long, and follows the number of calls in that time: one decided from the gap between two calls is
 * large by chance, again and again, and what such a call stands for is noise in the sum. */
#define SYSTEM_CALL_WEIGHT_HOLDS (4 * SYSTEM_CALL_PERIOD)
/* And it grows by this factor at most: a short burst says little yet. */
#define SYSTEM_CALL_WEIGHT_GROWTH 4

/* How the open call is timed. */
enum system_call_timing {
	SYSTEM_CALL_COUNTED, /* not */
	SYSTEM_CALL_IN_TURN,
	SYSTEM_CALL_SINCE_BLOCKED, /* it blocked, and is timed from there on */
	SYSTEM_CALL_RETURNS, /* it has ended; system_call_return.h */
};

#define SYSTEM_CALL_PLACES 16

/* Of the thread in the slot with the same number. */
struct system_call_state {
	__u32 task; /* whose; not the slot's: left by an earlier one */
	__u32 number; /* the call that it is in */
	__u32 last; /* the last one that restart_syscall goes on with */
	__u32 continued; /* it goes on after an interruption: it is counted already */
	__u32 timing; /* of the open call, enum system_call_timing */
	__u32 weight; /* calls that its time stands for */
	struct thread_clocks entered; /* the thread's clocks then */
	struct thread_clocks from; /* and since when its calls are counted */
	struct thread_clocks counted; /* how long they were before that */
	__u64 user_faults, kernel_faults;
	struct system_call_sum sums[SYSTEM_CALL_PLACES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHED_MAX_THREADS);
	__type(key, __u32);
	__type(value, struct system_call_state);
} system_call_states SEC(".maps");

/* By task number and system call: (task << 32 | number). Made beforehand: where threads end in a burst, with interrupts off,
 * the kernel's cache for elements made on demand runs dry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct system_call_sum);
} system_call_rows SEC(".maps");

SCHED_INLINE struct system_call_state *system_call_state_numbered(__u32 slot)
{
	return bpf_map_lookup_elem(&system_call_states, &slot);
}

/* The place of a call's sum: calls of one program seldom meet there. */
SCHED_INLINE __u32 system_call_place(__u32 number)
{
	return (number ^ number >> 4) & (SYSTEM_CALL_PLACES - 1);
}

SCHED_INLINE struct system_call_sum *system_call_sum_of(struct system_call_state *state, __u32 number)
{
	__u32 place = system_call_place(number);

	/* For the verifier: what bounds it must be on this copy. */
	barrier_var(place);
	return &state->sums[place & (SYSTEM_CALL_PLACES - 1)];
}

/* The thread blocks, or loses its CPU. What its call does from here on is measured for itself, so that others' waits are not guessed from it. */
SCHED_INLINE void call_blocks(const struct sched_slot *slot, __u64 now)
{
	struct system_call_state *state;
	struct system_call_sum *sum;
	struct thread_clocks clocks;

	if (!with_system_calls)
		return;
	state = system_call_state_numbered(slot->number);
	if (!state || state->task != slot->task || state->number >= SYSTEM_CALL_PAUSED)
		return;
	if (state->timing == SYSTEM_CALL_IN_TURN && state->weight <= 1)
		return;
	sum = system_call_sum_of(state, state->number);
	read_clocks(&clocks, &slot->thread, now);
	if (state->timing == SYSTEM_CALL_IN_TURN && sum->number == state->number)
		add_clocks(&sum->time, &state->entered, &clocks, state->weight);
	if (state->timing == SYSTEM_CALL_COUNTED)
		state->timing = SYSTEM_CALL_SINCE_BLOCKED;
	state->weight = 1;
	state->entered = clocks;
}

SCHED_INLINE __u32 numbered_call(const struct task_struct *task, long number)
{
	__u32 compat = task->thread_info.status & TS_COMPAT ? SYSTEM_CALL_COMPAT : 0;

	return (__u32)number | compat;
}

/* The call that a thread in the kernel is in, by the registers that it entered with: an interrupt or a fault leaves none
 * there. */
static __always_inline __u32 entered_call(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	long id = (__s32)BPF_CORE_READ(registers, orig_ax);

	return id < 0 ? SYSTEM_CALL_NONE : numbered_call(task, id);
}

/* The same of the slot's thread, which need not be the current one. */
static __always_inline __u32 entered_call_of(const struct sched_slot *slot)
{
	long id = (__s32)BPF_CORE_READ(registers_saved(slot), orig_ax);
	__u32 status = BPF_CORE_READ(task_of(slot), thread_info.status);

	return id < 0 ? SYSTEM_CALL_NONE : (__u32)id | (status & TS_COMPAT ? SYSTEM_CALL_COMPAT : 0);
}

/* The call whose exact time holds what a thread does now; or SYSTEM_CALL_NONE, SYSTEM_CALL_UNKNOWN. While calls are not
 * counted, the one that it is in. */
static __always_inline __u32 open_call(const struct sched_slot *slot, bool in_kernel)
{
	struct system_call_state *state;

	if (!with_system_calls)
		return SYSTEM_CALL_UNKNOWN;
	state = system_call_state_numbered(slot->number);
	if (!system_calls_on)
		return in_kernel ? entered_call_of(slot) : SYSTEM_CALL_NONE;
	if (!state || state->task != slot->task || state->number == SYSTEM_CALL_PAUSED)
		return SYSTEM_CALL_UNKNOWN;
	return state->number;
}

#endif
