/* Stacks: the kernel's, then the user's, named by their hash and sent once. */
#ifndef TRANSECT_SCHED_STACK_H
#define TRANSECT_SCHED_STACK_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_slot.h"

/* Where a thread's user half stood. */
struct user_registers {
	__u64 ip, sp, bp;
};

#include "sched_unwind.h"

#define KERNEL_FRAMES 48

struct hash_walk {
	struct sched_stack *stack;
	__u64 hash;
};

static long hash_frame(__u32 index, void *context)
{
	struct hash_walk *walk = context;

	if (index >= SCHED_MAX_FRAMES)
		return 1;
	walk->hash = (walk->hash ^ walk->stack->frames[index]) * 0x9e3779b97f4a7c15ULL;
	walk->hash ^= walk->hash >> 29;
	return 0;
}

/* Takes a stack of a thread whose memory is the current one. `context` is the program's, for the kernel half;
 * `kernel_half` says whether it is wanted. Returns the stack's id. */
static __always_inline __u64 take_stack(void *context, bool kernel_half, __s32 tgid, const struct user_registers *user)
{
	__u32 zero = 0, depth = stack_depth, kernel = 0, place;
	struct sched_stack *stack = bpf_map_lookup_elem(&stack_scratch, &zero);
	struct hash_walk walk;
	__u64 *sent;
	long bytes;

	if (!stack || !with_stacks)
		return 0;
	stack->type = SCHED_RECORD_STACK;
	stack->flags = 0;
	stack->tgid = tgid;
	if (kernel_half) {
		bytes = bpf_get_stack(context, stack->frames, KERNEL_FRAMES * sizeof(__u64), 0);
		if (bytes > 0)
			kernel = (__u32)bytes / sizeof(__u64);
	}
	if (kernel > KERNEL_FRAMES)
		kernel = KERNEL_FRAMES;
	stack->kernel_frames = kernel;
	stack->user_frames = 0;
	if (user->ip)
		walk_user_stack(stack, kernel, depth, user);
	walk.stack = stack;
	walk.hash = (__u32)tgid * 0x9e3779b97f4a7c15ULL + stack->flags + kernel;
	bpf_loop(kernel + stack->user_frames, hash_frame, &walk, 0);
	if (!walk.hash)
		walk.hash = 1;
	stack->id = walk.hash;
	place = walk.hash % SENT_STACKS;
	sent = bpf_map_lookup_elem(&sent_stacks, &place);
	if (sent && *sent != walk.hash) {
		__u32 frames = kernel + stack->user_frames;
		__u32 size = __builtin_offsetof(struct sched_stack, frames) + frames * sizeof(__u64);

		if (size > sizeof(*stack))
			size = sizeof(*stack);
		if (bpf_ringbuf_output(&records, stack, size, BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&lost.stacks, 1);
		else
			*sent = walk.hash;
	}
	return walk.hash;
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
}

#endif
