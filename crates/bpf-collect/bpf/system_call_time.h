/*
 * Exact time in each system call, by thread: how often, and how long running, runnable and blocked, from the thread's own
 * clocks at entry and exit. And how often it faulted.
 *
 * A thread's times lie in an array beside its slot, so that a call costs two clock readings and no hashing, and where calls
 * come fast most cost no reading: all are counted, some, chosen by chance, are timed and stand for the others; what does not
 * fit there, and what is left of threads that have ended, goes to a hash map that user space empties.
 */
#ifndef TRANSECT_SYSTEM_CALL_TIME_H
#define TRANSECT_SYSTEM_CALL_TIME_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_waiting.h"
#include "system_call_state.h"

/* Threads up to this number lived before that: what they did till then is not counted. */
__u32 system_calls_after_task = 0;
/* Rows that the hash map had no room for. */
__u64 system_calls_lost = 0;
/* What the next run of on_system_call_task is to do: 1 after the programs were attached, 0 after they were taken away. */
__u32 system_calls_request = 0;

#define SYSTEM_CALL_RT_SIGRETURN 15
#define SYSTEM_CALL_RESTART 219
#define SYSTEM_CALL_COMPAT_RESTART SYSTEM_CALL_COMPAT /* its number is 0 */
/* ERESTART_RESTARTBLOCK: what a call gives that restart_syscall goes on with. Calls that a tracer makes in between, as we do,
 * are none of the program's. */
#define SYSTEM_CALL_GOES_ON -516

/* Adds to a row of the hash map, unless the place is free. Rows of a thread change on its own CPU only, and user space
 * takes them when the thread has ended. Not static, as all here that the verifier would look at again for each place: see unwind.bpf.h. */
__noinline int add_row(__u32 task, const struct system_call_sum *sum)
{
	__u64 key = (__u64)task << 32;
	struct system_call_sum *row, added;
	struct thread_clocks nothing = {};

	if (!sum || (!sum->count && !sum->number))
		return 0;
	/* Linux 6.1 takes no value from memory that such a function was given. */
	added = *sum;
	key |= sum->number;
	row = bpf_map_lookup_elem(&system_call_rows, &key);
	if (row) {
		row->count += sum->count;
		row->estimated |= sum->estimated;
		add_clocks(&row->time, &nothing, &sum->time, 1);
	} else if (bpf_map_update_elem(&system_call_rows, &key, &added, BPF_ANY)) {
		__sync_fetch_and_add(&system_calls_lost, 1);
	}
	return 0;
}

/* Counts the part of the open call up to now. Gives its sum. */
static __always_inline struct system_call_sum *count_call(struct system_call_state *state, __u32 number, __u32 count,
							  const struct thread_clocks *now)
{
	struct system_call_sum *sum = system_call_sum_of(state, number);

	if (sum->number != number) {
		add_row(state->task, sum);
		__builtin_memset(sum, 0, sizeof(*sum));
		sum->number = number;
		sum->weight = 1;
	}
	sum->count += count;
	if (state->timing != SYSTEM_CALL_COUNTED)
		add_clocks(&sum->time, &state->entered, now, state->weight);
	return sum;
}

/* Calls come fast: how many one that is timed stands for. What is decided here holds for calls to come, whatever they are. */
SCHED_INLINE void weigh_next(struct system_call_sum *sum, __u64 now)
{
	__u64 since = now - sum->weighed_at, calls = sum->count - sum->weighed_count;
	/* A free place is that of call 0 already. */
	__u64 last = sum->weight ? sum->weight : 1, weight;

	if (since < SYSTEM_CALL_WEIGHT_HOLDS)
		return;
	weight = calls * SYSTEM_CALL_PERIOD / since;
	if (!weight)
		weight = 1;
	if (weight > last * SYSTEM_CALL_WEIGHT_GROWTH)
		weight = last * SYSTEM_CALL_WEIGHT_GROWTH;
	if (weight > SYSTEM_CALL_MAX_WEIGHT)
		weight = SYSTEM_CALL_MAX_WEIGHT;
	sum->weighed_at = now;
	sum->weighed_count = sum->count;
	sum->weight = weight;
	sum->random ^= (__u32)now;
}

/* Whether the next call is timed: by chance, independently of all calls before, so that a program whose short and long calls
 * alternate is no exception (Horvitz and Thompson's estimator). */
SCHED_INLINE bool draw(struct system_call_sum *sum)
{
	if (sum->weight <= 1)
		return true;
	sum->random = sum->random * 1664525u + 1013904223u;
	return (sum->random >> 16) % sum->weight == 0;
}

/* A thread's before it is met. */
static const struct system_call_state unmet = {};

/* The thread of the slot is met for the first time, or after its calls were not counted for a while. */
__noinline int meet_thread(struct system_call_state *state, struct sched_slot *slot, __u32 number,
				  const struct thread_clocks *now)
{
	if (!state || !slot || !now)
		return 0;
	if (state->task == slot->task) {
		/* Met by an interrupt's program since the caller looked. */
		if (state->number != SYSTEM_CALL_PAUSED)
			return 0;
		state->from = *now;
	} else {
		/* Copied by the kernel: as stores these would be a third of the function. */
		bpf_probe_read_kernel(state, sizeof(*state), &unmet);
		/* Its clocks began at zero when it was born or found, and so did the counting, unless it began later. */
		if (slot->task <= system_calls_after_task)
			state->from = *now;
	}
	state->entered = state->from;
	state->last = SYSTEM_CALL_NONE;
	state->continued = 0;
	state->timing = SYSTEM_CALL_IN_TURN;
	state->weight = 1;
	state->number = number;
	state->task = slot->task;
	return 0;
}

SCHED_INLINE bool is_met(const struct system_call_state *state, const struct sched_slot *slot)
{
	return state->task == slot->task && state->number != SYSTEM_CALL_PAUSED;
}

static __always_inline bool is_own_call(const struct pt_regs *registers)
{
	return registers->r15 == own_call_mark;
}

/* Calls that were met on this CPU, timed or not: all processes of the machine pay for them. */
struct system_call_entries {
	__u64 followed, others;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct system_call_entries);
} system_call_entries SEC(".maps");

SCHED_INLINE void meet_call(bool followed)
{
	__u32 zero = 0;
	struct system_call_entries *entries = bpf_map_lookup_elem(&system_call_entries, &zero);

	if (!entries)
		return;
	if (followed)
		entries->followed++;
	else
		entries->others++;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_system_call, struct pt_regs *registers, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 place = slot_number(task), number;
	struct sched_slot *slot = slot_numbered(place);
	struct system_call_state *state;
	struct thread_clocks now;

	meet_call(slot);
	if (!slot)
		return 0;
	state = system_call_state_numbered(place);
	if (!state)
		return 0;
	if (!slot->thread.active)
		mend_running(slot, bpf_ktime_get_ns());
	number = is_own_call(registers) ? SYSTEM_CALL_OWN : numbered_call(task, id);
	if (is_met(state, slot)) {
		struct system_call_sum *sum = system_call_sum_of(state, number);

		/* Whether it stands for others, or another for it. */
		if (sum->number == number && sum->weight > 1)
			sum->estimated = 1;
		if (sum->number == number && !draw(sum)) {
			state->timing = SYSTEM_CALL_COUNTED;
			state->continued = 0;
			state->number = number;
			return 0;
		}
		state->weight = sum->number == number ? sum->weight : 1;
	}
	read_clocks(&now, &slot->thread, bpf_ktime_get_ns());
	if (!is_met(state, slot))
		meet_thread(state, slot, SYSTEM_CALL_NONE, &now);
	state->timing = SYSTEM_CALL_IN_TURN;
	/* What a stop or a signal interrupted goes on. */
	state->continued = (number == SYSTEM_CALL_RESTART || number == SYSTEM_CALL_COMPAT_RESTART) &&
			   state->last != SYSTEM_CALL_NONE;
	if (state->continued || !state->weight)
		state->weight = 1;
	state->entered = now;
	state->number = state->continued ? state->last : number;
	return 0;
}

/* The open call has ended, or its part so far: it counts `count` times. */
__noinline int end_call(struct system_call_state *state, __u32 number, __u32 count, const struct thread_clocks *now, __u64 time)
{
	struct system_call_sum *sum;

	if (!state || !now)
		return 0;
	sum = count_call(state, number, count, now);
	if (state->timing == SYSTEM_CALL_IN_TURN)
		weigh_next(sum, time);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_system_call_end, struct pt_regs *registers, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 place = slot_number(task), number, count = 1;
	struct sched_slot *slot = slot_numbered(place);
	struct system_call_state *state;
	struct system_call_sum *sum;
	struct thread_clocks now;
	__u64 time;

	if (!slot)
		return 0;
	state = system_call_state_numbered(place);
	if (!state)
		return 0;
	if (!slot->thread.active)
		mend_running(slot, bpf_ktime_get_ns());
	if (state->timing == SYSTEM_CALL_COUNTED && is_met(state, slot) && state->number < SYSTEM_CALL_PAUSED) {
		sum = system_call_sum_of(state, state->number);
		if (sum->number == state->number) {
			sum->count++;
			if (result == SYSTEM_CALL_GOES_ON)
				state->last = state->number;
			state->number = SYSTEM_CALL_NONE;
			return 0;
		}
	}
	time = bpf_ktime_get_ns();
	read_clocks(&now, &slot->thread, time);
	if (!is_met(state, slot)) {
		/* Of a thread that lived before, only what it does from now on counts. */
		bool late = slot->task <= system_calls_after_task;

		meet_thread(state, slot, late ? SYSTEM_CALL_NONE : SYSTEM_CALL_UNKNOWN, &now);
	}
	number = state->number;
	if (number == SYSTEM_CALL_NONE)
		return 0; /* refused by a filter before it began */
	if (number == SYSTEM_CALL_UNKNOWN) {
		/* It was open when the thread was met. A signal handler's end has restored all registers. */
		long id = (__s32)registers->orig_ax;

		number = numbered_call(task, id < 0 ? SYSTEM_CALL_RT_SIGRETURN : id);
		if (is_own_call(registers))
			number = SYSTEM_CALL_OWN;
		/* A child's first return: its parent made the call. */
		if (!result && (number == SYSTEM_CALL_CLONE || number == SYSTEM_CALL_FORK ||
				number == SYSTEM_CALL_VFORK || number == SYSTEM_CALL_CLONE3))
			count = 0;
	}
	if (state->continued)
		count = 0;
	end_call(state, number, count, &now, time);
	if (result == SYSTEM_CALL_GOES_ON)
		state->last = number;
	state->number = SYSTEM_CALL_NONE;
	state->continued = 0;
	return 0;
}

/* The state of the current thread, or null if it is not followed or its calls are not counted yet. */
static __always_inline struct system_call_state *current_state(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 place = slot_number(task);
	struct sched_slot *slot = slot_numbered(place);
	struct system_call_state *state;
	struct thread_clocks now;

	/* A read that may fail, ours of stacks and locks above all: nothing is fetched, and the kernel counts no fault. */
	if (!slot || task->pagefault_disabled)
		return 0;
	state = system_call_state_numbered(place);
	if (!state)
		return 0;
	if (!is_met(state, slot)) {
		read_clocks(&now, &slot->thread, bpf_ktime_get_ns());
		meet_thread(state, slot, SYSTEM_CALL_UNKNOWN, &now);
	}
	return state;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_user_fault, unsigned long address, struct pt_regs *registers, unsigned long error)
{
	struct system_call_state *state = current_state();

	if (state)
		state->user_faults++;
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_kernel_fault, unsigned long address, struct pt_regs *registers, unsigned long error)
{
	struct system_call_state *state = current_state();

	if (state)
		state->kernel_faults++;
	return 0;
}

/* The thread of the slot is gone; its clocks are final. What is in its places goes to the hash map. */
__noinline int end_system_calls(struct sched_slot *slot, __u32 place)
{
	struct system_call_state *state;
	struct system_call_sum row = {};
	struct thread_clocks now;
	__u32 i;

	if (!slot)
		return 0;
	state = system_call_state_numbered(place);
	if (!state)
		return 0;
	read_clocks(&now, &slot->thread, slot->thread.changed);
	if (state->task != slot->task) {
		if (!system_calls_on)
			return 0;
		meet_thread(state, slot, SYSTEM_CALL_NONE, &now);
	}
	if (state->number < SYSTEM_CALL_PAUSED)
		count_call(state, state->number, !state->continued, &now);
	for (i = 0; i < SYSTEM_CALL_PLACES; i++)
		add_row(slot->task, &state->sums[i]);
	row.number = SYSTEM_CALL_ROW_USER_FAULTS;
	row.count = state->user_faults;
	if (row.count)
		add_row(slot->task, &row);
	row.number = SYSTEM_CALL_ROW_KERNEL_FAULTS;
	row.count = state->kernel_faults;
	if (row.count)
		add_row(slot->task, &row);
	row.number = SYSTEM_CALL_ROW_THREAD;
	row.count = 0;
	row.time = state->counted;
	if (state->number != SYSTEM_CALL_PAUSED)
		add_clocks(&row.time, &state->from, &now, 1);
	add_row(slot->task, &row);
	state->task = 0;
	return 0;
}

/* Which call a thread is in that does not run; one that runs tells by its next event. */
static __always_inline __u32 call_of_other(struct task_struct *task)
{
	return task->on_cpu ? SYSTEM_CALL_UNKNOWN : entered_call(task);
}

/* Runs over all threads of the machine after the programs were attached or taken away, or threads were found. */
SEC("iter/task")
int on_system_call_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct system_call_state *state;
	struct thread_clocks now;
	struct sched_slot *slot;
	__u32 place;

	if (!task)
		return 0;
	place = slot_number(task);
	slot = slot_numbered(place);
	if (!slot)
		return 0;
	state = system_call_state_numbered(place);
	if (!state)
		return 0;
	read_clocks(&now, &slot->thread, bpf_ktime_get_ns());
	if (system_calls_request) {
		if (!is_met(state, slot))
			meet_thread(state, slot, call_of_other(task), &now);
	} else if (is_met(state, slot)) {
		if (state->number < SYSTEM_CALL_PAUSED)
			count_call(state, state->number, !state->continued, &now);
		add_clocks(&state->counted, &state->from, &now, 1);
		state->number = SYSTEM_CALL_PAUSED;
	}
	return 0;
}

#endif
