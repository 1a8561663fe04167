/*
 * Where a thread waits has the same stack each time, nearly always: by the address and the stack pointer with which it entered
 * the kernel, and where waits are long by the addresses of the executable's code that lie on top of the stack, too: two functions
 * that call the same one have equal stack pointers there. The last stack of each such place stands for a wait that had none of its
 * own.
 */
#ifndef TRANSECT_SCHED_PLACE_H
#define TRANSECT_SCHED_PLACE_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"

#define PLACE_WORDS 48 /* on top of the stack: the frames of the C library's functions that wait, and some more */
#define PLACE_FACTOR 0x9e3779b97f4a7c15ULL

struct place_words {
	__u64 words[PLACE_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct place_words);
} place_words SEC(".maps");

/* A hash of the addresses of its executable's code that lie on top of the current thread's stack; 0 if there are none. */
__noinline __u64 callers_on_stack(__u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start = BPF_CORE_READ(task, mm, start_code), size = BPF_CORE_READ(task, mm, end_code) - start, hash = 0;
	__u32 zero = 0;
	struct place_words *top = bpf_map_lookup_elem(&place_words, &zero);

	if (!top || bpf_probe_read_user(top->words, sizeof(top->words), (void *)sp))
		return 0;
	for (int at = 0; at < PLACE_WORDS; at++) {
		__u64 word = top->words[at];

		if (word - start < size)
			hash = (hash ^ word) * PLACE_FACTOR;
	}
	return hash;
}

/* The wait that begins now is at this place, where waits are `long` as a rule. */
static __always_inline void find_place(struct sched_slot *slot, __u64 ip, __u64 sp, bool long_waits)
{
	__u64 callers = long_waits ? callers_on_stack(sp) : 0;

	slot->place = ((ip ^ callers ^ sp * PLACE_FACTOR) * PLACE_FACTOR) >> 32;
}

/* The current wait has this stack. */
static __always_inline void keep_place(struct sched_slot *slot)
{
	struct wait_place *place = &slot->places[slot->place & (WAIT_PLACES - 1)];

	place->place = slot->place;
	place->stack = slot->wait.stack;
}

/* Whether a stack of the current wait's place is known. */
static __always_inline bool has_place(const struct sched_slot *slot)
{
	const struct wait_place *place = &slot->places[slot->place & (WAIT_PLACES - 1)];

	return place->place == slot->place && place->stack;
}

/* The stack of the last wait: its own, or that of its place; 0 where neither is known. */
static __always_inline __u64 stack_of_wait(const struct sched_slot *slot)
{
	const struct wait_place *place = &slot->places[slot->place & (WAIT_PLACES - 1)];

	if (slot->wait.stack)
		return slot->wait.stack;
	return place->place == slot->place ? place->stack : 0;
}

#endif
