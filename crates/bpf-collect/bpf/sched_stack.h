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

#define SYSTEM_CALL_EXECVE 59
#define SYSTEM_CALL_EXIT 60
#define SYSTEM_CALL_EXIT_GROUP 231
#define SYSTEM_CALL_EXECVEAT 322

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
	struct sched_stack stack; /* first: copies of frames behind the kernel's stay inside, whatever the verifier thinks */
	struct unwind_walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_room);
} stack_room SEC(".maps");

/* The current thread is in a system call that takes its memory away: it ends, or becomes another program. */
SCHED_INLINE bool gives_memory_up(void)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__s32 system_call = (__s32)regs->orig_ax;

	return system_call == SYSTEM_CALL_EXECVE || system_call == SYSTEM_CALL_EXECVEAT || system_call == SYSTEM_CALL_EXIT ||
	       system_call == SYSTEM_CALL_EXIT_GROUP;
}

/* Adds the frames of the kernel's half to the hash. Not static: the verifier would look at all that follows for each end of
 * the loop. */
__noinline __u64 hash_kernel_half(const struct sched_stack *stack, __u32 kernel, __u64 hash)
{
	__u32 i;

	if (!stack)
		return 0;
	/* A loop and not bpf_loop: a call for each frame takes longer than the frame. */
	for (i = 0; i < KERNEL_FRAMES && i < kernel; i++)
		hash = hash_frame(hash, stack->frames[i]);
	return hash;
}

/* Sends the stack of so many frames that is in the room, if it is new. */
__noinline int send_stack(__u32 frames, __u64 hash)
{
	__u32 zero = 0, place = hash % SENT_STACKS, size;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);
	__u64 *sent = bpf_map_lookup_elem(&sent_stacks, &place);

	if (!room || !sent || *sent == hash)
		return 0;
	room->stack.id = hash;
	/* For the verifier of 6.1, which forgets a bound that is tested on a copy. */
	barrier_var(frames);
	frames &= SCHED_MAX_FRAMES; /* one less than a power of two */
	size = __builtin_offsetof(struct sched_stack, frames) + frames * sizeof(__u64);
	if (bpf_ringbuf_output(&records, &room->stack, size, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost.stacks, 1);
	else
		*sent = hash;
	return 0;
}

/*
 * Adds the user half, from the registers in the room's walk, to the `kernel` frames that are in the room already, and
 * sends the stack if it is new. Returns its id. A thread without a user half has none of its registers.
 *
 * Not static: so the verifier looks at it once, by itself, and not again at each place that takes a stack.
 */
__noinline __u64 finish_stack(__u32 tgid, __u32 kernel)
{
	__u32 zero = 0, frames, user;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);
	struct unwind_walk *unwind;
	struct sched_stack *stack;
	__u64 hash;

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
	if (unwind->ip) {
		unwind->tgid = (__s32)tgid;
		unwind->max = stack_depth < SCHED_MAX_FRAMES - kernel ? stack_depth : SCHED_MAX_FRAMES - kernel;
		unwind_user(unwind);
		stack->user_frames = unwind->count;
		stack->flags = unwind->flags;
		if (!(stack->flags & SCHED_STACK_COMPLETE) && gives_memory_up()) {
			/* The program's memory is gone: the kernel's half is all there is. */
			stack->user_frames = 0;
			stack->flags = SCHED_STACK_COMPLETE;
		} else if (unwind->unknown) {
			tell_unknown_code(stack->tgid, unwind->unknown);
		}
	}
	user = stack->user_frames;
	frames = kernel + user;
	if (!frames)
		return 0;
	if (frames > SCHED_MAX_FRAMES)
		frames = SCHED_MAX_FRAMES;
	hash = tgid * 0x9e3779b97f4a7c15ULL + stack->flags + kernel;
	hash = hash_kernel_half(stack, kernel, hash);
	if (user) {
		hash = hash_frame(hash, unwind->hash);
		bpf_probe_read_kernel(&stack->frames[kernel], (user & SCHED_MAX_FRAMES) * sizeof(__u64), unwind->frames);
	}
	hash = hash ? hash : 1;
	send_stack(frames, hash);
	return hash;
}

/* Puts the kernel's half into the room; `context` is the program's. Returns how many frames it has. */
static __always_inline __u32 kernel_half(void *context)
{
	__u32 zero = 0;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);
	long bytes = room ? bpf_get_stack(context, room->stack.frames, KERNEL_FRAMES * sizeof(__u64), 0) : 0;

	return bytes > 0 ? (__u32)bytes / sizeof(__u64) : 0;
}

/* The user half that is taken next stands there. */
static __always_inline void set_leaf(const struct user_registers *user)
{
	__u32 zero = 0;
	struct stack_room *room = bpf_map_lookup_elem(&stack_room, &zero);

	if (!room)
		return;
	room->walk.ip = user->ip;
	room->walk.sp = user->sp;
	room->walk.bp = user->bp;
	room->walk.bx = user->bx;
}

/* Takes a stack of a thread whose memory is the current one; so many `kernel` frames are in the room already. Returns its
 * id. */
static __always_inline __u64 take_stack(__s32 tgid, __u32 kernel, const struct user_registers *user)
{
	if (!with_stacks)
		return 0;
	set_leaf(user);
	return finish_stack((__u32)tgid, kernel);
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
