/* Stacks: the kernel's, then the user's, named by their hash and sent once. */
#ifndef TRANSECT_SCHED_STACK_H
#define TRANSECT_SCHED_STACK_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_slot.h"
#include "unwind.bpf.h"

/* Where a thread's user half stood. */
struct user_registers {
	__u64 ip, sp, bp, bx;
};

#define KERNEL_FRAMES 48

/* User space has to look at the process's mappings again: at most once a millisecond. */
static __always_inline void tell_unknown_code(__s32 tgid, __u64 address)
{
	struct sched_unknown_code *record;
	__u64 now = bpf_ktime_get_ns();

	if (now - unknown_code_told < 1000000)
		return;
	unknown_code_told = now;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return;
	record->type = SCHED_RECORD_UNKNOWN_CODE;
	record->tgid = tgid;
	record->address = address;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Where stacks are walked and put together. The programs that use it run with interrupts off. */
struct stack_room {
	struct unwind_walk walk;
	struct sched_stack stack;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_room);
} stack_room SEC(".maps");

struct hash_walk {
	struct stack_room *room;
	__u64 hash;
};

/* Takes one more frame of the user half behind the kernel's, and into the hash. */
static long hash_frame(__u32 index, void *context)
{
	struct hash_walk *walk = context;
	struct sched_stack *stack = &walk->room->stack;
	__u32 kernel = stack->kernel_frames, user = index - kernel;

	if (index >= SCHED_MAX_FRAMES)
		return 1;
	if (index >= kernel && user < UNWIND_MAX_FRAMES)
		stack->frames[index] = walk->room->walk.frames[user];
	walk->hash = (walk->hash ^ stack->frames[index]) * 0x9e3779b97f4a7c15ULL;
	walk->hash ^= walk->hash >> 29;
	return 0;
}

/*
 * Adds the user half, from the registers in the room's walk, to the `kernel` frames that are in the room already, and
 * sends the stack if it is new. Returns its id. `with_user` is 0 for a thread without a user half.
 *
 * Not static: so the verifier looks at it once, by itself, and not again at each place that takes a stack.
 */
__noinline __u64 finish_stack(__u32 tgid, __u32 kernel, __u32 with_user)
{
	__u32 zero = 0, frames, place;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);
	struct unwind_walk *unwind;
	struct sched_stack *stack;
	struct hash_walk walk;
	__u64 *sent;

	if (!room)
		return 0;
	stack = &room->stack;
	unwind = &room->walk;
	stack->type = SCHED_RECORD_STACK;
	stack->flags = 0;
	stack->tgid = (__s32)tgid;
	if (kernel > KERNEL_FRAMES)
		kernel = KERNEL_FRAMES;
	stack->kernel_frames = kernel;
	stack->user_frames = 0;
	if (with_user) {
		unwind->tgid = (__s32)tgid;
		unwind->max = stack_depth < SCHED_MAX_FRAMES - kernel ? stack_depth : SCHED_MAX_FRAMES - kernel;
		unwind_user(unwind);
		stack->user_frames = unwind->count;
		stack->flags = unwind->flags;
		if (unwind->unknown)
			tell_unknown_code(stack->tgid, unwind->unknown);
	}
	frames = kernel + stack->user_frames;
	if (frames > SCHED_MAX_FRAMES)
		frames = SCHED_MAX_FRAMES;
	walk.room = room;
	walk.hash = tgid * 0x9e3779b97f4a7c15ULL + stack->flags + kernel;
	bpf_loop(frames, hash_frame, &walk, 0);
	if (!walk.hash)
		walk.hash = 1;
	stack->id = walk.hash;
	place = walk.hash % SENT_STACKS;
	sent = bpf_map_lookup_elem(&sent_stacks, &place);
	if (sent && *sent != walk.hash) {
		__u32 size;

		/* For the verifier of 6.1, which forgets a bound that is tested on a copy. */
		barrier_var(frames);
		frames &= SCHED_MAX_FRAMES; /* one less than a power of two */
		size = __builtin_offsetof(struct sched_stack, frames) + frames * sizeof(__u64);
		if (bpf_ringbuf_output(&records, stack, size, BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&lost.stacks, 1);
		else
			*sent = walk.hash;
	}
	return walk.hash;
}

/* Takes a stack of a thread whose memory is the current one. `context` is the program's, for the kernel half;
 * `kernel_half` says whether it is wanted. Returns the stack's id. */
static __noinline __u64 take_stack(void *context, bool kernel_half, __s32 tgid, const struct user_registers *user)
{
	__u32 zero = 0, kernel = 0;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);
	long bytes;

	if (!room || !with_stacks || !user)
		return 0;
	if (kernel_half) {
		bytes = bpf_get_stack(context, room->stack.frames, KERNEL_FRAMES * sizeof(__u64), 0);
		if (bytes > 0)
			kernel = (__u32)bytes / sizeof(__u64);
	}
	room->walk.ip = user->ip;
	room->walk.sp = user->sp;
	room->walk.bp = user->bp;
	room->walk.bx = user->bx;
	return finish_stack((__u32)tgid, kernel, user->ip != 0);
}

/* Keeps a stack for those who wait for what this thread holds. */
SCHED_INLINE void answer_stack(struct sched_slot *slot, __u64 now, __u64 stack)
{
	slot->answer_stack = stack;
	slot->answer_time = now;
	slot->stack_wanted = 0;
}

SCHED_INLINE void registers_of(struct task_struct *task, struct user_registers *user)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	user->ip = regs->ip;
	user->sp = regs->sp;
	user->bp = regs->bp;
	user->bx = regs->bx;
}

#endif
