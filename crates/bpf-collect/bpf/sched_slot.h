/* Slots of the application's threads, found by the task or by the slot's number. */
#ifndef TRANSECT_SCHED_SLOT_H
#define TRANSECT_SCHED_SLOT_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"

/* The slot of a number; 0 is none. */
SCHED_INLINE struct sched_slot *slot_numbered(__u32 number)
{
	return number ? bpf_map_lookup_elem(&slots, &number) : 0;
}

SCHED_INLINE struct slot_place *place_of(__s32 pid)
{
	__u32 place = (__u32)pid % SLOT_PLACES;

	return bpf_map_lookup_elem(&slot_places, &place);
}

SCHED_INLINE __u32 stored_slot_number(struct task_struct *task)
{
	__u32 *number = bpf_task_storage_get(&slot_of_task, task, 0, 0);

	return number ? *number : 0;
}

SCHED_INLINE void take_place(__s32 pid, __u32 number)
{
	struct slot_place *place = place_of(pid);

	if (!place)
		return;
	if (place->pid && place->pid != pid) {
		place->shared = 1;
		return;
	}
	place->slot = number;
	barrier();
	place->pid = pid;
}

/* The slot of a thread that is followed, else 0. */
SCHED_INLINE __u32 slot_number(struct task_struct *task)
{
	struct slot_place *place = place_of(task->pid);
	struct sched_slot *slot;
	__u32 number;

	if (!place || place->shared)
		return stored_slot_number(task);
	if (place->pid != task->pid)
		return 0;
	number = place->slot;
	slot = slot_numbered(number);
	return slot && slot->kernel_task == (__u64)task ? number : stored_slot_number(task);
}

/* The same as a slot, null for none. */
SCHED_INLINE struct sched_slot *slot_of(struct task_struct *task)
{
	return slot_numbered(slot_number(task));
}

/* The same by the task alone, however its number has changed. */
SCHED_INLINE struct sched_slot *stored_slot(struct task_struct *task)
{
	return slot_numbered(stored_slot_number(task));
}

/* The slot's thread, and its saved user registers, to be read from. */
SCHED_INLINE struct task_struct *task_of(const struct sched_slot *slot)
{
	return (struct task_struct *)slot->kernel_task;
}

SCHED_INLINE struct pt_regs *registers_saved(const struct sched_slot *slot)
{
	return (struct pt_regs *)slot->registers;
}

SCHED_INLINE struct sched_application *application_of(const struct sched_slot *slot)
{
	__u32 number = slot->application;

	return bpf_map_lookup_elem(&applications, &number);
}

SCHED_INLINE struct sched_published *published_pages(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&published, &zero);
}

#endif
