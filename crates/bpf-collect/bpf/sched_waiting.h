/* A wait from its beginning, when the thread blocks, to its record, when it is active again. */
#ifndef TRANSECT_SCHED_WAITING_H
#define TRANSECT_SCHED_WAITING_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_activity.h"
#include "sched_gain.h"
#include "sched_maps.h"
#include "sched_place.h"
#include "sched_preempted.h"
#include "sched_slot.h"
#include "sched_stack.h"
#include "sched_wait.h"
#include "system_call_state.h"

/* The stack of the wait's holder as far as it can be had now: where it is blocked or queued, its registers are saved;
 * where it runs, or belongs to another process whose memory is not the current one, its next event or sample answers. At high
 * parallelism it matters only if it doesn't run. */
static __always_inline void ask_holder(struct sched_slot *slot)
{
	struct sched_slot *holder = slot_numbered(slot->holder_slot);
	struct user_registers user;
	struct pt_regs *registers;

	if (!holder || holder->task != slot->holder_task)
		return;
	if (slot->wait.n >= min_parallelism && holder->thread.on_cpu_since)
		return;
	registers = registers_saved(holder);
	if (!registers || holder->tgid != slot->tgid ||
	    BPF_CORE_READ(task_of(holder), on_cpu)) {
		holder->stack_wanted = 1;
		return;
	}
	user.ip = BPF_CORE_READ(registers, ip);
	user.sp = BPF_CORE_READ(registers, sp);
	user.bp = BPF_CORE_READ(registers, bp);
	user.bx = BPF_CORE_READ(registers, bx);
	slot->wait.holder_stack = take_stack(slot->tgid, 0, &user);
}

/* What is still to be done when a wait has begun. */
enum wait_stack {
	WAIT_STACK = 1, /* it has a stack */
	WAIT_KERNEL_HALF = 2, /* the kernel's half of it, too */
	WAIT_DESCRIBED = 4, /* by its registers */
};

/* The current thread blocks, at `wait.begin`; the slice before is in the wait, too. What it blocks for is described but for
 * the stack; returns what remains. Not static, as all here that is given a slot alone: see unwind.bpf.h. */
__noinline __u32 begin_wait(struct sched_slot *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 remains = WAIT_DESCRIBED;
	struct user_registers user;
	struct sched_wait *wait;
	bool chosen;

	if (!slot)
		return 0;
	wait = &slot->wait;
	wait->type = SCHED_RECORD_WAIT;
	wait->task = slot->task;
	wait->application = slot->application;
	call_blocks(slot, wait->begin);
	wait->stack = 0;
	find_habit(slot, registers->ip, registers->di);
	find_place(slot, registers->ip, registers->sp, has_habit(slot, BRIEF_MOST));
	chosen = choose_wait(slot, wait->begin);
	/* The next one is told anyway. */
	if (!chosen && !has_habit(slot, long_wait())) {
		slot->undetailed = 1;
		slot->holder_slot = 0;
		wait->holder = 0;
		return 0;
	}
	wait->call = open_call(slot, true);
	describe_wait(slot, &user);
	if (!chosen) {
		wait->chance = 0;
		wait->stack = stack_of_wait(slot);
		return remains;
	}
	if (with_stacks && (wait->n < min_parallelism || slot->stack_wanted || slot->new_place ||
			    wait->begin - slot->last_stack_time >= stack_period || is_new_place(slot, wait->begin))) {
		remains |= WAIT_STACK;
		if (kernel_halves || !says_all(wait))
			remains |= WAIT_KERNEL_HALF;
		set_leaf(&user);
	} else {
		wait->stack = stack_of_wait(slot);
	}
	return remains;
}

/* The rest of it; `kernel` frames are in the room for stacks. */
__noinline int describe_stack(struct sched_slot *slot, __u32 remains, __u32 kernel)
{
	struct sched_wait *wait;

	if (!slot)
		return 0;
	wait = &slot->wait;
	if (!with_stacks) {
		spend(BRIEF_RECORD_COST);
		return 0;
	}
	if (remains & WAIT_STACK) {
		wait->stack = finish_stack(slot->tgid, kernel);
		keep_place(slot);
		/* What it goes back to after a stop is to be seen, too. */
		if (!wait->held)
			slot->last_stack_time = wait->begin;
		if (slot->stack_wanted)
			answer_stack(slot, wait->begin, wait->stack);
	}
	if (wait->holder)
		ask_holder(slot);
	if (wait_budget)
		spend(bpf_ktime_get_ns() - wait->begin + BRIEF_RECORD_COST);
	return 0;
}

/* A wait that was not chosen lasts: what it is for is still in the thread's registers. Its stack is out of reach, that of its
 * place is not. */
static __always_inline void describe_late(struct sched_slot *slot)
{
	slot->wait.call = open_call(slot, true);
	slot->wait.chance = 0;
	slot->wait.stack = stack_of_wait(slot);
	describe_other(slot);
}

/* What the lock's holder and the waker gained at low parallelism while this thread waited, the holder also without a CPU. Who
 * the holder was is known from the beginning on. */
static __always_inline void tell_gains(struct sched_slot *slot, __u64 criticality, __u64 low)
{
	struct sched_wait *wait = &slot->wait;
	struct sched_slot *party = slot_numbered(slot->holder_slot);
	struct sched_progress now;

	wait->holder_gain = 0;
	wait->waker_gain = 0;
	if (party && wait->holder && party->task == slot->holder_task && party->application == slot->application) {
		read_progress(&party->thread, wait->end, criticality, low, &now);
		wait->holder_gain = held_up_by(&slot->holder_then, &now);
	}
	party = slot_numbered(slot->waking.slot);
	if (party && wait->waker && party->task == wait->waker)
		wait->waker_gain = gained_since_blocked(slot, party, low);
}

/* The wait is over: it is told. */
__noinline int end_wait(struct sched_slot *slot, __u64 now, __u64 idle, __u64 criticality, __u64 low)
{
	struct sched_wait *wait;
	struct sched_slot *holder;

	if (!slot)
		return 0;
	wait = &slot->wait;
	wait->end = now;
	wait->idle = idle;
	/* It stands for itself alone: told had it not been chosen. */
	if (now - wait->begin >= long_wait())
		wait->chance = 0;
	wait->waker = 0;
	wait->waker_stack = 0;
	wait->waker_context = SCHED_WAKER_NONE;
	/* CPUs' clocks differ a little, and the waker may have been faster than the switch. */
	if (slot->waking.time + 100000 >= wait->begin) {
		wait->waker = slot->waking.task;
		wait->waker_stack = slot->waking.stack;
		wait->waker_context = slot->waking.context;
		if (slot->waking.context == SCHED_WAKER_OTHER_TASK)
			__builtin_memcpy(wait->waker_comm, slot->waking.comm, sizeof(wait->waker_comm));
	}
	tell_gains(slot, criticality, low);
	if (wait->holder && !wait->holder_stack) {
		holder = slot_numbered(slot->holder_slot);
		if (holder && holder->task == slot->holder_task && holder->answer_time >= wait->begin)
			wait->holder_stack = holder->answer_stack;
	}
	tell_brief(slot);
	if (bpf_ringbuf_output(&records, wait, sizeof(*wait), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost.waits, 1);
	learn_length(slot, wait->end - wait->begin);
	wait->begin = 0;
	slot->waking.time = 0;
	slot->waking.task = 0;
	return 0;
}

/* The thread is active again, and its wait, if it was in one, over. The arguments are those of a sched_instant. */
__noinline int conclude_wait(struct sched_slot *slot, __u64 now, __u64 idle, __u64 criticality, __u64 low)
{
	if (!slot || !slot->wait.begin)
		return 0;
	if (slot->undetailed) {
		if (now - slot->wait.begin < long_wait()) {
			slot->wait.end = now;
			add_brief(slot, now, idle);
			learn_length(slot, now - slot->wait.begin);
			slot->wait.begin = 0;
			slot->undetailed = 0;
			return 0;
		}
		describe_late(slot);
	}
	end_wait(slot, now, idle, criticality, low);
	return 0;
}

/* The thread is active: it is woken, or runs although its wake-up was not seen, and whatever it waited for has ended by
 * now. */
__noinline int make_active(struct sched_slot *slot, __u64 now)
{
	struct sched_instant instant;

	if (!slot || !activate(slot, now, &instant))
		return 0;
	if (slot->describing) {
		slot->woken = instant;
		if (__sync_val_compare_and_swap(&slot->describing, SCHED_DESCRIBING_NOW, SCHED_DESCRIBING_WOKEN))
			return 0;
	}
	conclude_wait(slot, instant.time, instant.idle_ended, instant.criticality, instant.low);
	return 0;
}

/* As make_active, for programs that would be verified for long if they told the wait: its end is left to the thread's next
 * switch, or to the CPU that describes it. */
__noinline int make_active_untold(struct sched_slot *slot, __u64 now)
{
	struct sched_instant instant;

	if (!slot || !activate(slot, now, &instant))
		return 0;
	slot->woken = instant;
	(void)__sync_lock_test_and_set(&slot->describing, SCHED_DESCRIBING_WOKEN);
	return 0;
}

/* The current thread's wait is described, or its end was left to this. */
__noinline int end_description(struct sched_slot *slot)
{
	if (!slot || __sync_val_compare_and_swap(&slot->describing, SCHED_DESCRIBING_NOW, SCHED_DESCRIBING_NOT) ==
			     SCHED_DESCRIBING_NOW)
		return 0;
	slot->describing = SCHED_DESCRIBING_NOT;
	conclude_wait(slot, slot->woken.time, slot->woken.idle_ended, slot->woken.criticality, slot->woken.low);
	return 0;
}

/* The thread, which is active, has had its CPU since then, and its switch to it may not have been seen. */
SCHED_INLINE void mend_on_cpu(struct sched_slot *slot, __u64 since)
{
	if (!slot->thread.on_cpu_since)
		sched_get_cpu(&slot->thread, since > slot->thread.changed ? since : slot->thread.changed);
	if (slot->preempted_untold)
		end_untold(slot, since);
	if (slot->preempted_since)
		end_preempted(slot, since > slot->preempted_since ? since : slot->preempted_since);
}

/* The thread makes a system call, and its wake-up was not seen. */
__noinline int mend_running(struct sched_slot *slot, __u64 now)
{
	if (!slot)
		return 0;
	make_active_untold(slot, now);
	mend_on_cpu(slot, now);
	return 0;
}

#endif
