/* Who wakes a thread: another one, or an interrupt. */
#ifndef TRANSECT_SCHED_WAKER_H
#define TRANSECT_SCHED_WAKER_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_stack.h"
#include "sched_wait.h"

#define KERNEL_STACK 32768 /* not less than the kernel's THREAD_SIZE */

/* Whether an interrupt or a softirq runs in the thread's name: they have stacks of their own (x86-64, as the kernel does
 * since 5.8, commit 931b94145981), and the tracepoint's arguments, at that address, lie on the stack that is in use. */
static __always_inline bool in_interrupt(__u64 arguments, struct task_struct *task)
{
	return arguments - (__u64)task->stack >= KERNEL_STACK;
}

/* The context's address as a number: the place is memory that the verifier takes for one. */
static __always_inline __u64 address_of_arguments(void *context, __u64 *place)
{
	*place = (__u64)context;
	barrier();
	return *(volatile __u64 *)place;
}

/* Whether a system call, or a fault (-1), may wait for the lock of the process's memory, which a page fault of another
 * thread gives back. */
SCHED_INLINE bool waits_for_memory(__s64 number)
{
	return number == -1 || (number >= 9 && number <= 12) || number == 25 || number == 28 ||
	       number == SYSTEM_CALL_CLONE || number == SYSTEM_CALL_FORK || number == SYSTEM_CALL_CLONE3;
}

/* Interrupts and exceptions leave -1 in place of a system call's number. Those that interrupt the program itself run on its
 * own stack, the interrupts like the exceptions: of these only page faults wake others, who then wait for memory. */
static __always_inline bool interrupts_program(struct task_struct *task, __s64 woken_call)
{
	const struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);

	return (__s64)registers->orig_ax == -1 && !waits_for_memory(woken_call);
}

/* System calls of x86-64, by number, in whose name the network's softirqs work for the peer on this machine: what is sent,
 * but also room that was made by reading, and ends. And those that wait for such. */
static const __u64 reaches_peer[8] = {
	/* read write close readv writev sendfile connect sendto recvfrom sendmsg recvmsg shutdown */
	1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 19 | 1ULL << 20 | 1ULL << 40 | 1ULL << 42 | 1ULL << 44 | 1ULL << 45 |
		1ULL << 46 | 1ULL << 47 | 1ULL << 48,
	0,
	0,
	0,
	/* splice recvmmsg sendmmsg */
	1ULL << (275 - 256) | 1ULL << (299 - 256) | 1ULL << (307 - 256),
	0,
	/* io_uring_enter */
	1ULL << (426 - 384),
	0,
};

static const __u64 waits_for_peer[8] = {
	/* read write poll readv writev select sendfile connect accept sendto recvfrom sendmsg recvmsg */
	1ULL << 0 | 1ULL << 1 | 1ULL << 7 | 1ULL << 19 | 1ULL << 20 | 1ULL << 23 | 1ULL << 40 | 1ULL << 42 | 1ULL << 43 |
		1ULL << 44 | 1ULL << 45 | 1ULL << 46 | 1ULL << 47,
	0,
	0,
	/* epoll_wait */
	1ULL << (232 - 192),
	/* pselect6 ppoll splice epoll_pwait accept4 recvmmsg sendmmsg */
	1ULL << (270 - 256) | 1ULL << (271 - 256) | 1ULL << (275 - 256) | 1ULL << (281 - 256) | 1ULL << (288 - 256) |
		1ULL << (299 - 256) | 1ULL << (307 - 256),
	0,
	/* io_uring_enter epoll_pwait2 */
	1ULL << (426 - 384) | 1ULL << (441 - 384),
	0,
};

SCHED_INLINE bool is_among(const __u64 calls[8], __s64 number)
{
	return number >= 0 && number < 512 && (calls[(number >> 6) & 7] >> (number & 63) & 1);
}

/* Whether what an interrupt does in the thread's name may be the thread's own work for the one that is woken. Else the timer or
 * the device would have interrupted anybody. */
static __always_inline bool sends(struct task_struct *task, __s64 woken_call, const struct sched_slot *slot)
{
	__s64 number = (__s32)((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;
	__s64 waits = (__s32)woken_call;
	__u32 type = slot->wait.object.type;

	/* A file is read from a disk. */
	if (!slot->undetailed && (type == SCHED_OBJECT_FILE || type == SCHED_OBJECT_PIPE || type == SCHED_OBJECT_DEVICE))
		return false;
	return is_among(reaches_peer, number) && is_among(waits_for_peer, waits);
}

/* What tells one system call from the next that the same instruction makes with the same stack pointer. */
static __always_inline __u64 entry_arguments(struct task_struct *task)
{
	const struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);

	return hash_frame(hash_frame(registers->orig_ax, registers->di), registers->si);
}

/* By number: kill tkill tgkill pidfd_send_signal. */
SCHED_INLINE bool sends_signal(struct task_struct *task)
{
	long number = ((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;

	return number == 62 || number == 200 || number == 234 || number == 424;
}

/* The thread that runs this wakes another, that of the slot: who it is and what it runs. `arguments` is the address of the
 * tracepoint's. Not static: see unwind.bpf.h. */
__noinline int note_waker(struct sched_slot *slot, __u64 arguments, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = slot_number(task), application;
	struct sched_slot *waker = slot_numbered(number);
	struct sched_published *pages;
	struct sched_waking *waking;
	struct user_registers user;
	__s64 woken_call;
	bool interrupt, recent;
	__u64 call;

	if (!slot)
		return 0;
	waking = &slot->waking;
	waking->time = now;
	waking->task = 0;
	waking->slot = 0;
	waking->stack = 0;
	woken_call = BPF_CORE_READ(registers_saved(slot), orig_ax);
	interrupt = in_interrupt(arguments, task) || interrupts_program(task, woken_call);
	if (!waker) {
		waking->context = interrupt ? SCHED_WAKER_INTERRUPT : SCHED_WAKER_OTHER_TASK;
		/* Who ends the program from outside is not what it waited for. */
		if (!interrupt && sends_signal(task))
			waking->context = SCHED_WAKER_NONE;
		else if (!interrupt)
			bpf_probe_read_kernel_str(waking->comm, sizeof(waking->comm), &task->comm);
		return 0;
	}
	if (interrupt && !sends(task, woken_call, slot)) {
		waking->context = SCHED_WAKER_INTERRUPT;
		return 0;
	}
	waking->context = SCHED_WAKER_TASK;
	waking->slot = number;
	waking->task = waker->task;
	pages = with_stacks ? published_pages() : 0;
	if (!pages)
		return 0;
	/* Read and used at once: the verifier of 6.1 forgets bounds of what it has to put aside. */
	application = slot->application;
	if (application >= SCHED_MAX_APPLICATIONS)
		return 0;
	recent = pages->applications[application].active >= min_parallelism + 1 && !waker->stack_wanted &&
		 now - waker->last_stack_time < stack_period;
	if (recent && !waker->burst_time)
		return 0;
	registers_of(task, &user);
	call = entry_arguments(task);
	if (waker->burst_time && waker->burst_ip == user.ip && waker->burst_sp == user.sp &&
	    waker->burst_arguments == call && now - waker->burst_time < 50000) {
		waking->stack = waker->burst_stack;
		if (waker->stack_wanted)
			answer_stack(waker, now, waking->stack);
		return 0;
	}
	if (recent)
		return 0;
	waking->stack = take_stack(waker->tgid, 0, &user);
	if (wait_budget)
		spend(bpf_ktime_get_ns() - now);
	waker->last_stack_time = now;
	waker->burst_ip = user.ip;
	waker->burst_sp = user.sp;
	waker->burst_arguments = call;
	waker->burst_time = now;
	waker->burst_stack = waking->stack;
	if (waker->stack_wanted)
		answer_stack(waker, now, waking->stack);
	return 0;
}

#endif
