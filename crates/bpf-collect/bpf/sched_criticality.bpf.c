/*
 * Scheduler criticality: which threads are active, from the scheduler's own events.
 *
 * A thread is active from the wake-up to the switch at which it blocks; being preempted or queued does not end that.
 * Nothing relies on events coming in pairs: each says what the thread does now, and what was missed before is mended.
 * The state machine is in sched_state.h; its tests run it in user space.
 *
 * Only programs of the tracing type (tp_btf, iter) may take a bpf_spin_lock; the timer's samples read what is published.
 */
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sched_abi.h"
#include "sched_activity.h"
#include "sched_activity.h"
#include "sched_audit.h"
#include "sched_brief.h"
#include "sched_gain.h"
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_preempted.h"
#include "sched_queued.h"
#include "sched_stack.h"
#include "sched_state.h"
#include "sched_wait.h"
#include "sched_waiting.h"
#include "sched_waker.h"
#include "system_call_return.h"
#include "system_call_time.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TASK_DEAD 0x80
#define CLONE_THREAD 0x10000

/* Names the records so that their layouts are in the object's type information; never used. */
const struct sched_record_layouts {
	struct sched_task task;
	struct sched_stack stack;
	struct sched_wait wait;
	struct sched_sample sample;
	struct sched_unknown_code unknown_code;
	struct sched_brief brief;
	struct sched_preempted preempted;
} record_layouts = {};

#define MAX_REALTIME_PRIORITY 100

/* For how long a thread that leaves its CPU had it, by the kernel's own account. That of real-time threads does not
 * tell one time on a CPU from the next. */
static __always_inline __u64 ran(struct task_struct *task)
{
	__u64 now = task->se.sum_exec_runtime, before = task->se.prev_sum_exec_runtime;

	return task->prio >= MAX_REALTIME_PRIORITY && now > before ? now - before : 0;
}

/* It had its CPU since then, by the kernel's own account, which begins with the switch to it; that is told only later. */
static __always_inline void account_whole(struct sched_slot *slot, __u64 since)
{
	if (since < slot->thread.on_cpu_since)
		slot->thread.on_cpu_since = since > slot->thread.changed ? since : slot->thread.changed;
}

/* The current thread is active no more: it waits, or is `dead`. Returns whether it is so. Functions that are not static are
 * verified by themselves: see unwind.bpf.h. */
__noinline int stop_activity(struct sched_slot *slot, __u64 now, __u32 dead)
{
	struct sched_instant instant;
	__u64 begin, gained, active, running, since_low, length;

	if (!slot)
		return 0;
	begin = slot->thread.changed;
	gained = slot->thread.gained;
	active = slot->thread.active_ns;
	running = slot->thread.running_ns - slot->slice_running;
	since_low = slot->thread.since_low;
	if (with_waits && !dead)
		slot->describing = SCHED_DESCRIBING_NOW;
	if (!block(slot, now, &instant, dead))
		return 0;
	slot->slice_running = slot->thread.running_ns;
	if (dead) {
		tell_task(slot, SCHED_TASK_EXIT, instant.time, 1);
		return 1;
	}
	length = slot->thread.active_ns - active;
	slot->wait.slice_runnable_ns = length > running ? length - running : 0;
	slot->wait.slice_begin = begin;
	slot->wait.slice_criticality = slot->thread.gained - gained;
	slot->wait.begin = instant.time;
	slot->wait.n = instant.active;
	slot->blocked_criticality = instant.criticality;
	slot->blocked_low = instant.low;
	mark_gain(slot, since_low, instant.low);
	return 1;
}

/* What the wait's lock holder had gained when the wait began. */
static __always_inline void mark_holder(struct sched_slot *slot)
{
	struct sched_slot *holder = slot_numbered(slot->holder_slot);

	if (holder)
		read_progress(&holder->thread, slot->wait.begin, slot->blocked_criticality, slot->blocked_low, &slot->holder_then);
}

/* It could go on: somebody may want its stack. */
__noinline int leave_ready(struct sched_slot *slot, __u64 now)
{
	struct user_registers user;

	if (!slot)
		return 0;
	registers_of(bpf_get_current_task_btf(), &user);
	answer_stack(slot, now, take_stack(slot->tgid, 0, &user));
	return 0;
}

/* The current thread leaves its CPU. */
static __always_inline void leave_cpu(void *context, struct sched_slot *slot, struct task_struct *task, bool preempt,
				      __u64 now)
{
	/* Read again: a signal can take the blocking back before the switch, and then no wake-up follows. */
	unsigned int state = task->__state;
	__u32 remains;

	/* The kernel runs no program in an interrupt that came into the same program, and some kernels run none in the name of
	 * their first process: of a short run between two waits, nothing may have been seen. */
	if (!slot->thread.active)
		make_active(slot, now - ran(task));
	if (!slot->thread.on_cpu_since)
		mend_on_cpu(slot, now - ran(task));
	if (slot->describing)
		end_description(slot);
	account_whole(slot, now - ran(task));
	sched_leave_cpu(&slot->thread, now);
	if (with_queued && was_queued(slot, now) && !(state & TASK_DEAD))
		leave_queued(slot, now);
	if (preempt || !state) {
		if (slot->stack_wanted && with_stacks)
			leave_ready(slot, now);
		if (!preempt && with_system_calls && system_calls_on)
			reopen_call(slot, now);
		/* As if it blocked: others' time without a CPU is not guessed from this one's. */
		call_blocks(slot, now);
		if (with_preemptions)
			begin_preempted(context, slot, task, now);
		return;
	}
	if (!stop_activity(slot, now, state & TASK_DEAD))
		return;
	if (state & TASK_DEAD) {
		forget(task, slot);
		return;
	}
	if (!with_waits)
		return;
	remains = begin_wait(slot);
	if (remains)
		describe_stack(slot, remains, remains & WAIT_KERNEL_HALF ? kernel_half(context) : 0);
	mark_holder(slot);
	end_description(slot);
}

/* The thread gets a CPU. */
__noinline int get_cpu(struct sched_slot *slot, __u64 now)
{
	if (!slot)
		return 0;
	if (with_queued && slot->thread.active && sched_elapsed(queued_since(slot), now) >= QUEUED_BRIEF)
		end_queued(slot, now);
	if (slot->preempted_untold)
		end_untold(slot, now);
	if (slot->call_returns)
		end_reopened_call(slot, now);
	sched_get_cpu(&slot->thread, now);
	if (slot->preempted_since)
		end_preempted(slot, now);
	if (!slot->thread.active)
		make_active(slot, now);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* One that ends may have another number than when it was followed: a thread that is not followed yet has called exec. */
	struct sched_slot *leaves = prev->__state & TASK_DEAD ? stored_slot(prev) : slot_of(prev), *comes = slot_of(next);
	__u64 now;

	/* Kept apart: the verifier takes no arithmetic on what may be null. */
	barrier_var(leaves);
	if (!leaves) {
		barrier_var(comes);
		if (!comes)
			return 0;
	}
	now = bpf_ktime_get_ns();
	if (leaves)
		leave_cpu(ctx, leaves, prev, preempt, now);
	if (comes)
		get_cpu(comes, now);
	return 0;
}

/* The first word of a wake-up: whoever is blocked is active from here on. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct sched_slot *slot = slot_of(task);
	__u64 now;

	if (!slot)
		return 0;
	/* Not yet at its switch: it will not block at all, or the switch is under way on another CPU. */
	if (slot->thread.active) {
		if (!task->on_rq)
			note_waker(slot, address_of_arguments(ctx, &slot->waking.stack), bpf_ktime_get_ns());
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (!slot->undetailed || now - slot->wait.begin >= long_wait())
		note_waker(slot, address_of_arguments(ctx, &slot->waking.stack), now);
	make_active(slot, now);
	return 0;
}

/* The last: for whoever's switch was under way at the first, and where nobody listens to that. */
static __always_inline int wake(struct task_struct *task)
{
	struct sched_slot *slot = slot_of(task);

	if (slot && !slot->thread.active)
		make_active(slot, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	return wake(task);
}

/* A thread begins to run. One that is followed from its birth has no wait that ends here. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	struct sched_instant instant;
	struct sched_slot *slot;

	if (!only_launched)
		return wake(task);
	slot = slot_of(task);
	if (slot && !slot->thread.active)
		activate(slot, bpf_ktime_get_ns(), &instant);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_new_task, struct task_struct *task, __u64 clone_flags)
{
	struct sched_slot *maker = slot_of(bpf_get_current_task_btf()), *slot;
	__u32 application;

	if (!maker) {
		/* Made inside of the cgroup from outside (CLONE_INTO_CGROUP), or by the kernel. */
		if (!only_launched && followed_cgroup && in_cgroup(address_of(task), followed_cgroup))
			start_following(task);
		return 0;
	}
	application = maker->application;
	if (per_process && !(clone_flags & CLONE_THREAD))
		application = new_application();
	slot = follow(task, application, maker->task);
	if (!slot)
		return 0;
	if (!(clone_flags & CLONE_THREAD))
		unwind_fork(maker->tgid, slot->tgid);
	tell_task(slot, SCHED_TASK_BORN, bpf_ktime_get_ns(), 1);
	return 0;
}

/* A process was moved. Only one of its threads is told. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_cgroup_attach, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	if (!followed_cgroup || !in_cgroup(address_of(task), followed_cgroup))
		return 0;
	if (!slot_of(task) && !task->exit_state)
		start_following(task);
	cgroup_entered = 1;
	return 0;
}

/* Not its process's first thread called exec: the two have exchanged their numbers, and that one may still have to leave its
 * CPU. It is found by its task: the place of the number is not changed. */
__noinline int change_number(struct sched_slot *slot)
{
	struct sched_instant instant;

	if (!slot)
		return 0;
	leave_tid(slot, slot->number);
	release_published(slot);
	number_thread(slot);
	take_place(slot->kernel_tid, slot->number);
	take_tid(slot, slot->number);
	/* It runs; nothing else would fill its new record before it blocks. */
	activate(slot, bpf_ktime_get_ns(), &instant);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	struct sched_slot *slot = slot_of(task);

	if (!slot) {
		if (launched_tgid && number_for_recorder(address_of(task)) == launched_tgid) {
			launched_tgid = 0;
			start_following_current(task);
		}
		return 0;
	}
	if (task->pid != slot->kernel_tid)
		change_number(slot);
	slot->burst_time = 0;
	unwind_forget(slot->tgid);
	tell_task(slot, SCHED_TASK_EXEC, bpf_ktime_get_ns(), 1);
	return 0;
}

/* When this CPU's timer fired last. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} last_sample SEC(".maps");

/* A sample stands for the time since the last one, which differs: periods change at random. After a long gap it does so for
 * some periods only: it is to be one of many. */
#define SAMPLE_MOST_PERIODS 16

SCHED_INLINE __u32 sampled_period(const __u64 *last, __u64 period, __u64 now)
{
	__u64 most = period * SAMPLE_MOST_PERIODS;

	if (timed_samples && last && *last && now > *last)
		period = now - *last < most ? now - *last : most;
	return period < 0xffffffff ? period : 0xffffffff;
}

/* A timer's sample of what runs. */
SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sched_slot *slot = slot_of(task);
	struct clock_reading clock;
	struct sched_sample *record;
	struct user_registers user;
	__u64 now = bpf_ktime_get_ns(), weight, active, untold, stack, *last;
	__u32 zero = 0;
	bool in_kernel;

	last = bpf_map_lookup_elem(&last_sample, &zero);
	if (!slot) {
		if (last)
			*last = now;
		return 0;
	}
	user.ip = ctx->regs.ip;
	user.sp = ctx->regs.sp;
	user.bp = ctx->regs.bp;
	user.bx = ctx->regs.bx;
	/* Its next sample gets the weight of this one. */
	if (!read_clock(slot, now, &clock)) {
		__sync_fetch_and_add(&lost.published, 1);
		return 0;
	}
	in_kernel = (ctx->regs.cs & 3) == 0;
	if (in_kernel)
		registers_of(task, &user);
	stack = take_stack(slot->tgid, in_kernel ? kernel_half(ctx) : 0, &user);
	if (slot->stack_wanted)
		answer_stack(slot, now, stack);
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&lost.samples, 1);
		return 0;
	}
	active = sched_active_ns(&slot->thread, now);
	active = active > slot->thread.sampled_active ? active - slot->thread.sampled_active : 0;
	/* Time without a CPU waits for a record of its own. */
	untold = untold_ns(slot);
	if (untold && untold < active) {
		weight = sched_sample_part(&slot->thread, clock.criticality, active - untold, active);
		active -= untold;
	} else {
		weight = sched_sample(&slot->thread, clock.criticality);
		slot->queued_ns = 0;
		slot->preempted_queued_ns = 0;
	}
	record->type = SCHED_RECORD_SAMPLE;
	record->task = slot->task;
	record->time = now;
	record->criticality = weight;
	record->active_ns = active;
	slot->thread.sampled_active += active;
	slot->thread.sampled_running = sched_running_ns(&slot->thread, now);
	record->stack = stack;
	record->user_ip = user.ip;
	record->n = clock.active;
	record->in_kernel = in_kernel;
	record->call = open_call(slot, in_kernel);
	record->period = sampled_period(last, ctx->sample_period, now);
	record->queued = 0;
	record->unused = 0;
	if (last)
		*last = now;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
