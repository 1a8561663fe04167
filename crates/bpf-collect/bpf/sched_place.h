/*
 * Where a thread waits has the same stack each time, nearly always: by the address and the stack pointer with which it entered
 * the kernel. The last stack of each such place stands for a wait that had none of its own.
 */
#ifndef TRANSECT_SCHED_PLACE_H
#define TRANSECT_SCHED_PLACE_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"

/* The wait that begins now is at this place. */
static __always_inline void find_place(struct sched_slot *slot, __u64 ip, __u64 sp)
{
	slot->place = ((ip ^ sp * 0x9e3779b97f4a7c15ULL) * 0x9e3779b97f4a7c15ULL) >> 32;
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
