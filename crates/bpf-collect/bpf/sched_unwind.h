/* User stacks by frame pointers. */
#ifndef TRANSECT_SCHED_UNWIND_H
#define TRANSECT_SCHED_UNWIND_H

struct frame_walk {
	struct sched_stack *stack;
	__u64 bp;
	__u32 base, count, limit;
};

static long next_frame(__u32 index, void *context)
{
	struct frame_walk *walk = context;
	__u64 link[2];
	__u32 place = walk->base + walk->count;

	if (walk->count >= walk->limit || place >= SCHED_MAX_FRAMES)
		return 1;
	if (!walk->bp || bpf_probe_read_user(link, sizeof(link), (void *)walk->bp) || !link[1])
		return 1;
	walk->stack->frames[place] = link[1];
	walk->count++;
	if (link[0] <= walk->bp)
		return 1;
	walk->bp = link[0];
	return 0;
}

static __always_inline void walk_user_stack(struct sched_stack *stack, __u32 kernel, __u32 depth,
					    const struct user_registers *user)
{
	struct frame_walk walk = { .stack = stack, .bp = user->bp, .base = kernel, .count = 1, .limit = depth };

	if (kernel < SCHED_MAX_FRAMES)
		stack->frames[kernel] = user->ip;
	bpf_loop(SCHED_MAX_FRAMES, next_frame, &walk, 0);
	stack->user_frames = walk.count;
}

#endif
