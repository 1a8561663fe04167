/*
 * Times a function of the kernel and at most three of its callees in the threads that the scheduler collector follows,
 * for one window: calls, and how long the thread was running, runnable and blocked in them, by the thread's own clocks.
 *
 * One of four kinds of probes calls the same two functions, enter and leave. A callee counts while its thread is inside
 * its parent, was called by the parent's own code (its return address tells), and none of its siblings counts. What calls
 * itself counts once. A call that was open when the probes came is known from its thread's stack (on_timed_task), or by
 * what it calls. No probe sees it return: it has ended when its function or another callee is called anew, or else when the
 * system call ends.
 */
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sched_slot.h"
#include "thread_clocks.h"
#include "function_time.h"

#define TIMED_COMPAT 2 /* TS_COMPAT */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Counting is on if it is not 0; every window has a number of its own. Set by user space. */
__u32 window = 0;
/* What is timed in this window; set before it begins. Row 0 is the parent of all. */
struct timed_function functions[TIMED_FUNCTIONS] = {};
/* When it began to count. */
__u64 window_began = 0;
/* Threads up to this number lived when the window began. */
__u32 newest_task = 0;
/* A thread that measures what the probes cost, by the kernel's number: it has the slot 0, though nobody follows it. */
__s32 calibrated_pid = 0;
/* Returns that were missed, and sums of ended threads without room. */
__u64 timed_missed = 0, timed_lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHED_MAX_THREADS);
	__type(key, __u32);
	__type(value, struct timed_thread);
} timed_threads SEC(".maps");

/* Sums of threads whose slot another one has by now: by task number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct timed_sums);
} timed_ended SEC(".maps");

/* Whether an address is in the code of the one that may call it. */
static __always_inline bool called_by_parent(const struct timed_function *function, __u64 address)
{
	int i;

	if (!address)
		return true; /* not known: its place is not read on this kernel */
	for (i = 0; i < TIMED_RANGES; i++)
		if (address > function->caller[i].begin && address <= function->caller[i].end)
			return true;
	return false;
}

/* The state of the current thread; null if it is not followed. Its clocks are in `now`. */
static __noinline struct timed_thread *timed_thread(struct thread_clocks *now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 time = bpf_ktime_get_ns();
	struct timed_thread *thread;
	__u32 place, number, i;

	if (calibrated_pid && task->pid == calibrated_pid) {
		place = 0;
		number = 0;
		now->running = time;
		now->active = time;
		now->blocked = 0;
	} else {
		struct sched_slot *slot;

		place = slot_number(task);
		slot = slot_numbered(place);
		if (!slot)
			return 0;
		number = slot->task;
		read_clocks(now, &slot->thread, time);
	}
	thread = bpf_map_lookup_elem(&timed_threads, &place);
	if (!thread)
		return 0;
	if (thread->task != number || thread->window != window) {
		if (thread->window == window && bpf_map_update_elem(&timed_ended, &thread->task, &thread->sums, BPF_ANY))
			__sync_fetch_and_add(&timed_lost, 1);
		__builtin_memset(thread, 0, sizeof(*thread));
		thread->task = number;
		thread->sums.window = window;
		/* The clocks of one that is born in the window begin with it; nothing is open in it. */
		if (number <= newest_task)
			thread->begin = *now;
		for (i = 0; i < TIMED_FUNCTIONS; i++) {
			thread->calls[i].entered = thread->begin;
			thread->calls[i].known = number > newest_task;
		}
		thread->window = window;
	}
	return thread;
}

/* Stack pointer of a call that was open before there were probes. */
#define UNSEEN_ENTRY (~0ULL)

/* The call counts from `from` on. */
static __always_inline void open_at(struct timed_call *call, __u64 sp, const struct thread_clocks *from)
{
	call->depth = 1;
	call->known = 1;
	call->sp = sp;
	call->entered = *from;
}

static __always_inline void close_call(struct timed_thread *thread, __u32 row, const struct thread_clocks *now)
{
	struct timed_call *call = &thread->calls[row & (TIMED_FUNCTIONS - 1)];
	struct timed_sum *sum = &thread->sums.sums[row & (TIMED_FUNCTIONS - 1)];

	sum->calls++;
	add_clocks(&sum->time, &call->entered, now, 1);
	call->depth = 0;
	call->known = 1;
}

/* Ends calls that no return will be seen of: those of one row, or those that a row calls. */
static __noinline int end_unseen(struct timed_thread *thread, const struct thread_clocks *now, __u32 row, __u32 parent)
{
	__u32 i;

	if (!thread || !now)
		return 0;
	for (i = 0; i < TIMED_FUNCTIONS; i++)
		if (thread->calls[i].depth && thread->calls[i].sp == UNSEEN_ENTRY &&
		    (i == row || (i && functions[i].parent == parent)))
			close_call(thread, i, now);
	return 0;
}

/* Whether the call's parent is open, or must be: who is called from its code is inside it. */
static __always_inline bool parent_is_open(struct timed_thread *thread, __u32 row)
{
	struct timed_call *parent = &thread->calls[row & (TIMED_FUNCTIONS - 1)];

	if (!parent->depth && !parent->known)
		open_at(parent, UNSEEN_ENTRY, &thread->begin);
	return parent->depth != 0;
}

/* The function of a row is entered; `sp` is where its return address lies. */
static __noinline int enter(__u32 row, struct timed_thread *thread, const struct thread_clocks *now, __u64 sp, __u64 caller)
{
	struct timed_function *function;
	struct timed_call *call;
	__u32 i, parent;

	if (!thread || !now)
		return 0;
	row &= TIMED_FUNCTIONS - 1;
	function = &functions[row];
	call = &thread->calls[row];
	thread->sums.sums[row].hits += thread->calls[0].depth != 0;
	/* What was open before there were probes has ended, and what it called. */
	end_unseen(thread, now, row, row);
	if (call->depth) {
		/* A call that is open lies further up the stack: an equal or lower one has returned unseen. Interrupts have stacks
		 * of their own. */
		if (sp < call->sp || sp - call->sp > 16384) {
			call->depth++;
			return 0;
		}
		__sync_fetch_and_add(&timed_missed, 1);
		call->depth = 0;
	}
	if (!row) {
		open_at(call, sp, now);
		return 0;
	}
	if (!called_by_parent(function, caller))
		return 0;
	parent = function->parent & (TIMED_FUNCTIONS - 1);
	call->known = 1;
	if (!parent_is_open(thread, parent))
		return 0;
	end_unseen(thread, now, row, parent);
	for (i = 1; i < TIMED_FUNCTIONS; i++)
		if (i != row && functions[i].parent == parent && thread->calls[i].depth)
			return 0;
	open_at(call, sp, now);
	return 0;
}

static __noinline int leave(__u32 row, struct timed_thread *thread, const struct thread_clocks *now, __u64 caller)
{
	struct timed_function *function;
	struct timed_call *call;
	__u32 i;

	if (!thread || !now)
		return 0;
	row &= TIMED_FUNCTIONS - 1;
	function = &functions[row];
	call = &thread->calls[row];
	if (call->depth > 1) {
		call->depth--;
		return 0;
	}
	if (!call->depth) {
		/* Not one of those that count, or open since before the window. */
		if (call->known || (row && (!caller || !called_by_parent(function, caller) ||
					    !parent_is_open(thread, function->parent))))
			return 0;
		call->entered = thread->begin;
	}
	close_call(thread, row, now);
	/* What it called has returned, seen or not. */
	for (i = 1; i < TIMED_FUNCTIONS; i++)
		if (i != row && functions[i].parent == row) {
			if (thread->calls[i].depth) {
				__sync_fetch_and_add(&timed_missed, 1);
				close_call(thread, i, now);
			}
			thread->calls[i].known = 1;
		}
	return 0;
}

static __noinline int enter_now(__u32 row, __u64 sp, __u64 caller)
{
	struct thread_clocks now;
	struct timed_thread *thread;

	if (!window)
		return 0;
	thread = timed_thread(&now);
	if (thread)
		enter(row, thread, &now, sp, caller);
	return thread != 0;
}

static __noinline int leave_now(__u32 row, __u64 caller)
{
	struct thread_clocks now;
	struct timed_thread *thread;

	if (!window)
		return 0;
	thread = timed_thread(&now);
	if (thread)
		leave(row, thread, &now, caller);
	return 0;
}

/* A kprobe at an entry: the return address is on top of the stack. */
static __always_inline int kprobe_enter(struct pt_regs *ctx, __u32 row)
{
	__u64 caller = 0;

	if (!window)
		return 0;
	bpf_probe_read_kernel(&caller, sizeof(caller), (void *)ctx->sp);
	return enter_now(row, ctx->sp, caller);
}

SEC("kprobe")
int kprobe_entry(struct pt_regs *ctx)
{
	kprobe_enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* A kretprobe: the instruction pointer is where the function returns to. */
SEC("kretprobe")
int kprobe_return(struct pt_regs *ctx)
{
	return leave_now(bpf_get_attach_cookie(ctx), ctx->ip);
}

SEC("kprobe.multi")
int multi_entry(struct pt_regs *ctx)
{
	kprobe_enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("kretprobe.multi")
int multi_return(struct pt_regs *ctx)
{
	return leave_now(bpf_get_attach_cookie(ctx), ctx->ip);
}

extern bool bpf_session_is_return(void) __ksym __weak;

/* One program for both. An entry that is nobody's needs no return. */
SEC("kprobe.session")
int session(struct pt_regs *ctx)
{
	__u32 row = bpf_get_attach_cookie(ctx);

	if (bpf_session_is_return())
		return leave_now(row, ctx->ip);
	return !kprobe_enter(ctx, row);
}

/* Where the return address lies above the arguments that a trampoline hands to its program: behind the address in the
 * function that the trampoline returns to (arch_prepare_bpf_trampoline). */
static __noinline __u64 trampoline_caller(struct timed_thread *thread, __u32 row, __u64 *sp)
{
	struct timed_function *function = &functions[row & (TIMED_FUNCTIONS - 1)];
	__u64 context, words[2];
	__u32 i, offset = function->frame_offset;

	if (!thread || !sp)
		return 0;
	context = thread->context;
	*sp = context;
	if (!offset) {
		offset = TIMED_NO_OFFSET;
		for (i = 0; i < 16; i++) {
			if (bpf_probe_read_kernel(words, sizeof(words), (void *)(context + i * 8)))
				break;
			if (words[0] > function->code.begin && words[0] <= function->code.begin + 16) {
				offset = (i + 1) * 8;
				break;
			}
		}
		function->frame_offset = offset;
	}
	if (offset == TIMED_NO_OFFSET)
		return 0;
	*sp = context + offset;
	words[0] = 0;
	bpf_probe_read_kernel(words, sizeof(words[0]), (void *)(context + offset));
	return words[0];
}

static __always_inline int trampoline(void *ctx, __u32 row, bool returns)
{
	struct thread_clocks now;
	struct timed_thread *thread;
	__u64 sp, caller;

	if (!window)
		return 0;
	thread = timed_thread(&now);
	if (!thread)
		return 0;
	*(volatile __u64 *)&thread->context = (__u64)ctx;
	barrier();
	caller = trampoline_caller(thread, row, &sp);
	if (returns)
		leave(row, thread, &now, caller);
	else
		enter(row, thread, &now, sp, caller);
	return 0;
}

/* A trampoline belongs to one function: one pair of programs for each row. */
#define TRAMPOLINES(row) 	SEC("fentry") int fentry_##row(void *ctx) { return trampoline(ctx, row, false); } 	SEC("fexit") int fexit_##row(void *ctx) { return trampoline(ctx, row, true); }
TRAMPOLINES(0)
TRAMPOLINES(1)
TRAMPOLINES(2)
TRAMPOLINES(3)

/* A system call as the parent; and its end is the end of all that was open in it before there were probes. */
SEC("tp_btf/sys_enter")
int BPF_PROG(call_enters, struct pt_regs *registers, long id)
{
	struct thread_clocks now;
	struct timed_thread *thread;

	if (!window)
		return 0;
	thread = timed_thread(&now);
	if (!thread)
		return 0;
	thread->calls[0].known = 1;
	thread->calls[0].depth = 0;
	if ((__u32)id == functions[0].system_call && !(bpf_get_current_task_btf()->thread_info.status & TIMED_COMPAT))
		enter(0, thread, &now, 0, 0);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_leaves, struct pt_regs *registers, long result)
{
	struct thread_clocks now;
	struct timed_thread *thread;
	__u32 i;

	if (!window)
		return 0;
	thread = timed_thread(&now);
	if (!thread)
		return 0;
	for (i = 0; i < TIMED_FUNCTIONS; i++) {
		if (thread->calls[i].depth && thread->calls[i].sp == UNSEEN_ENTRY)
			close_call(thread, i, &now);
		thread->calls[i].known |= i > 0;
	}
	if (functions[0].system_call == TIMED_NO_SYSTEM_CALL) {
		thread->calls[0].known = 1;
		return 0;
	}
	if (thread->calls[0].depth || (__u32)registers->orig_ax == functions[0].system_call)
		leave(0, thread, &now, 0);
	thread->calls[0].known = 1;
	return 0;
}

/* Room for a thread's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[64]);
} timed_stack SEC(".maps");

struct stack_search {
	__u64 *frames;
	struct timed_thread *thread;
	__u32 count;
	__u32 inner; /* the frame before, seen from the root: row + 1, or 0 */
};

/* Looks at frames from the root on: which functions are open, each called by its parent. */
static long search_frame(__u32 index, void *context)
{
	struct stack_search *search = context;
	__u32 at = search->count - 1 - index, row, found = 0, parent = search->inner;
	__u64 address;

	if (index >= search->count || at >= 64)
		return 1;
	address = search->frames[at];
	for (row = 0; row < TIMED_FUNCTIONS; row++) {
		struct timed_function *function = &functions[row];
		struct timed_call *call = &search->thread->calls[row];

		if (address < function->code.begin || address > function->code.end)
			continue;
		found = row + 1;
		if (call->depth ||
		    (row && (parent != function->parent + 1 ||
			     !search->thread->calls[function->parent & (TIMED_FUNCTIONS - 1)].depth)))
			continue;
		open_at(call, UNSEEN_ENTRY, &search->thread->begin);
	}
	/* The wrappers of a system call are its code, too. */
	if (!found && functions[0].system_call != TIMED_NO_SYSTEM_CALL && called_by_parent(&functions[1], address))
		found = 1;
	search->inner = found;
	return 0;
}

/* Runs over all threads of the machine when a window begins: one that does not run shows by its stack what is open. */
SEC("iter/task")
int on_timed_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct stack_search search = {};
	struct timed_thread *thread;
	struct thread_clocks now;
	struct sched_slot *slot;
	__u32 place, zero = 0, i;
	long bytes;

	if (!task)
		return 0;
	place = slot_number(task);
	slot = slot_numbered(place);
	thread = bpf_map_lookup_elem(&timed_threads, &place);
	search.frames = bpf_map_lookup_elem(&timed_stack, &zero);
	if (!slot || !thread || !search.frames || !window)
		return 0;
	if (thread->task == slot->task && thread->window == window)
		return 0; /* an event was here first */
	/* One that has been blocked since before the window is met as it was then. */
	if (slot->thread.active || slot->thread.changed > window_began || task->on_cpu)
		read_clocks(&now, &slot->thread, bpf_ktime_get_ns());
	else
		read_clocks(&now, &slot->thread, window_began);
	__builtin_memset(thread, 0, sizeof(*thread));
	thread->task = slot->task;
	thread->sums.window = window;
	thread->begin = now;
	for (i = 0; i < TIMED_FUNCTIONS; i++)
		thread->calls[i].entered = now;
	if (!task->on_cpu) {
		struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
		bytes = bpf_get_task_stack(task, search.frames, 64 * sizeof(__u64), 0);
		if (bytes > 0) {
			search.thread = thread;
			search.count = (__u32)bytes / sizeof(__u64);
			if (functions[0].system_call != TIMED_NO_SYSTEM_CALL &&
			    (__u32)BPF_CORE_READ(registers, orig_ax) == functions[0].system_call) {
				open_at(&thread->calls[0], UNSEEN_ENTRY, &now);
				search.inner = 1;
			}
			bpf_loop(search.count, search_frame, &search, 0);
			for (i = 0; i < TIMED_FUNCTIONS; i++)
				thread->calls[i].known = 1;
		}
	}
	thread->window = window;
	return 0;
}
