/* Who wakes a thread: another one, or an interrupt. */
#ifndef TRANSECT_SCHED_WAKER_H
#define TRANSECT_SCHED_WAKER_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_stack.h"

#define KERNEL_STACK 32768 /* not less than the kernel's THREAD_SIZE */

/* Whether an interrupt or a softirq runs in the thread's name: they have stacks of their own (x86-64, as the kernel does
 * since 5.8, commit 931b94145981), and the tracepoint's arguments lie on the stack that is in use. `place` is memory to
 * turn the pointer into a number. */
static __always_inline bool in_interrupt(void *context, struct task_struct *task, __u64 *place)
{
	__u64 stack = (__u64)BPF_CORE_READ(task, stack), arguments;

	*place = (__u64)context;
	barrier();
	arguments = *(volatile __u64 *)place;
	return arguments - stack >= KERNEL_STACK;
}

/* Whether a system call is one that sends: its softirq part runs in the sender's name. */
SCHED_INLINE bool sends(__s64 number)
{
	return number == 1 || number == 20 || number == 40 || number == 42 || number == 44 || number == 46 || number == 307;
}

/* The thread that runs this wakes another: who it is and what it runs. */
static __noinline int note_waker(void *context, struct sched_slot *slot, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sched_waking *waking = &slot->waking;
	struct sched_published *pages = published_pages();
	__u32 application = slot->application;
	struct sched_slot *waker;
	struct pt_regs *regs;
	struct user_registers user;

	waking->time = now;
	waking->task = 0;
	waking->slot = 0;
	waking->stack = 0;
	waking->slot = slot_number(task);
	waker = slot_numbered(waking->slot);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (in_interrupt(context, task, &waking->stack) && !(waker && sends((__s32)regs->orig_ax))) {
		waking->stack = 0;
		waking->slot = 0;
		waking->context = SCHED_WAKER_INTERRUPT;
		return 0;
	}
	waking->stack = 0;
	if (!waker) {
		waking->context = SCHED_WAKER_OTHER_TASK;
		bpf_probe_read_kernel_str(waking->comm, sizeof(waking->comm), &task->comm);
		return 0;
	}
	waking->context = SCHED_WAKER_TASK;
	waking->task = waker->task;
	if (!with_stacks || !pages || application >= SCHED_MAX_APPLICATIONS)
		return 0;
	registers_of(task, &user);
	if (waker->burst_time && waker->burst_ip == user.ip && waker->burst_sp == user.sp && now - waker->burst_time < 50000) {
		waking->stack = waker->burst_stack;
		return 0;
	}
	if (pages->applications[application].active >= min_parallelism + 1 && !waker->stack_wanted &&
	    now - waker->last_stack_time < stack_period)
		return 0;
	waking->stack = take_stack(context, false, waker->tgid, &user);
	waker->last_stack_time = now;
	waker->burst_ip = user.ip;
	waker->burst_sp = user.sp;
	waker->burst_time = now;
	waker->burst_stack = waking->stack;
	if (waker->stack_wanted)
		answer_stack(waker, now, waking->stack);
	return 0;
}

#endif
