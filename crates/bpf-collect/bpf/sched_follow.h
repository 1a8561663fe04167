/*
 * Threads of the application: each has a slot from the moment on that it is followed to its end, is found by its thread id
 * and told to user space.
 *
 * Functions that are not static are verified by themselves: see unwind.bpf.h. They can't be given a task, only its address.
 */
#ifndef TRANSECT_SCHED_FOLLOW_H
#define TRANSECT_SCHED_FOLLOW_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_brief.h"
#include "sched_maps.h"
#include "sched_slot.h"
#include "task_number.h"

SCHED_INLINE __u64 tid_key(__s32 tgid, __s32 ns_tid)
{
	return (__u64)(__u32)tgid << 32 | (__u32)ns_tid;
}

/* The task's address as a number: what was spilled to the stack is a pointer to the verifier until it is read like this. */
SCHED_INLINE __u64 address_of(struct task_struct *task)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &task);
	return address;
}

/* A task's number as the recorder's pid namespace sees it, which is how user space finds it in /proc; the initial
 * namespace's if it is not in there. */
__noinline __s32 number_for_recorder(__u64 task)
{
	return number_in((struct task_struct *)task, recorder_namespace);
}

/* The number of the process that made a process: any of its threads may have. `leader`: the first thread. */
__noinline __s32 parent_for_recorder(__u64 leader)
{
	struct task_struct *maker = BPF_CORE_READ((struct task_struct *)leader, real_parent);

	return number_for_recorder((__u64)BPF_CORE_READ(maker, group_leader));
}

/* A thread's number as its own pid namespace sees it, and which namespace that is. */
struct own_number {
	__s32 number;
	__u32 namespace;
};

SCHED_INLINE struct own_number own_number(struct task_struct *task)
{
	struct own_number own = {};
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level = BPF_CORE_READ(pid, level);
	struct upid *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);

	if (level <= 32) {
		struct upid *at = (void *)numbers + level * bpf_core_type_size(struct upid);

		own.number = BPF_CORE_READ(at, nr);
		own.namespace = BPF_CORE_READ(at, ns, ns.inum);
	}
	return own;
}

/* A record for it in the pages that the flow agent reads. */
SCHED_INLINE void claim_published(struct sched_slot *slot, struct own_number own)
{
	struct sched_published *pages = published_pages();

	slot->published = SCHED_PUBLISHED_NONE;
	if (publish_threads && pages)
		slot->published = sched_published_claim(pages, sched_published_key(own.namespace, own.number), slot->task,
							slot->application);
	if (publish_threads && slot->published == SCHED_PUBLISHED_NONE)
		__sync_fetch_and_add(&lost.unpublished, 1);
}

SCHED_INLINE void release_published(struct sched_slot *slot)
{
	struct sched_published *pages = published_pages();

	if (publish_threads && pages)
		sched_published_release(pages, slot->published);
}

/* Found by its thread id: in its process, and by others, since locks in shared memory name owners in other processes. */
SCHED_INLINE void take_tid(const struct sched_slot *slot, __u32 number)
{
	__u64 key = tid_key(slot->tgid, slot->ns_tid);

	bpf_map_update_elem(&slot_by_tid, &key, &number, BPF_ANY);
	key = tid_key(0, slot->ns_tid);
	bpf_map_update_elem(&slot_by_tid, &key, &number, BPF_ANY);
}

/* After exec the id may be another thread's. */
static __always_inline void leave_tid(const struct sched_slot *slot, __u32 number)
{
	__u64 key = tid_key(slot->tgid, slot->ns_tid);
	__u32 *named = bpf_map_lookup_elem(&slot_by_tid, &key);

	if (named && *named == number)
		bpf_map_delete_elem(&slot_by_tid, &key);
	key = tid_key(0, slot->ns_tid);
	named = bpf_map_lookup_elem(&slot_by_tid, &key);
	if (named && *named == number)
		bpf_map_delete_elem(&slot_by_tid, &key);
}

/* The thread's own numbers as they are now, and its place in the pages that the flow agent reads. */
__noinline int number_thread(struct sched_slot *slot)
{
	struct task_struct *task;
	struct own_number own;

	if (!slot)
		return 0;
	task = task_of(slot);
	slot->kernel_tid = BPF_CORE_READ(task, pid);
	slot->tid = number_for_recorder(slot->kernel_task);
	own = own_number(task);
	slot->ns_tid = own.number;
	claim_published(slot, own);
	return 0;
}

/* A slot for a thread that is blocked until something else is seen; 0 if there is no room. */
__noinline __u32 take_slot(__u64 task, __u32 application, __u32 parent)
{
	__u32 number = 0;
	struct sched_slot *slot;
	struct task_struct *leader;

	if (bpf_map_pop_elem(&free_slots, &number))
		number = __sync_fetch_and_add(&last_slot, 1) + 1;
	slot = number < SCHED_MAX_THREADS ? slot_numbered(number) : 0;
	if (!slot) {
		__sync_fetch_and_add(&lost.threads, 1);
		return 0;
	}
	__builtin_memset(&slot->thread, 0, sizeof(slot->thread));
	__builtin_memset(&slot->waking, 0, sizeof(slot->waking));
	slot->wait.begin = 0;
	slot->wait.stack = 0;
	slot->object_file = 0;
	slot->kernel_task = task;
	slot->registers = 0;
	slot->number = number;
	slot->task = __sync_fetch_and_add(&last_task, 1) + 1;
	slot->parent = parent;
	slot->application = application;
	number_thread(slot);
	leader = BPF_CORE_READ((struct task_struct *)task, group_leader);
	slot->tgid = number_for_recorder((__u64)leader);
	slot->ns_tgid = own_number(leader).number;
	slot->parent_tgid = parent_for_recorder((__u64)leader);
	slot->stray = 0;
	slot->holder_slot = 0;
	slot->stack_wanted = 0;
	slot->answer_time = 0;
	slot->last_stack_time = 0;
	slot->preempted_since = 0;
	slot->preempted_untold = 0;
	slot->queued_ns = 0;
	slot->preempted_queued_ns = 0;
	slot->preempted_last = 0;
	slot->call_returns = 0;
	slot->preempted_ns = 0;
	slot->undetailed = 0;
	slot->describing = SCHED_DESCRIBING_NOT;
	slot->habit = 0;
	__builtin_memset(slot->places, 0, sizeof(slot->places));
	slot->places_paid = 0;
	__builtin_memset(slot->habits, 0, sizeof(slot->habits));
	__builtin_memset(&slot->brief, 0, sizeof(slot->brief));
	slot->burst_time = 0;
	slot->slices = 0;
	__builtin_memset(slot->marks, 0, sizeof(slot->marks));
	slot->slice_running = 0;
	slot->met = audit_round;
	take_tid(slot, number);
	return number;
}

/* Follows a thread from now on; it is blocked until something else is seen. Returns its slot, null if there is no
 * room. */
static __always_inline struct sched_slot *follow(struct task_struct *task, __u32 application, __u32 parent)
{
	__u32 number = take_slot(address_of(task), application, parent), *reference;
	struct sched_slot *slot = slot_numbered(number);

	if (!slot)
		return 0;
	slot->registers = (__u64)bpf_task_pt_regs(task);
	reference = bpf_task_storage_get(&slot_of_task, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reference) {
		__sync_fetch_and_add(&lost.threads, 1);
		release_published(slot);
		slot->task = 0;
		return 0;
	}
	*reference = number;
	take_place(slot->kernel_tid, number);
	__sync_fetch_and_add(&live_threads, 1);
	return slot;
}

/* Of system_call_time.h. */
int end_system_calls(struct sched_slot *slot, __u32 place);

/* The slot may be used again. */
__noinline int free_slot(struct sched_slot *slot)
{
	__u32 number;

	if (!slot)
		return 0;
	number = slot->number;
	release_published(slot);
	if (with_system_calls)
		end_system_calls(slot, number);
	slot->task = 0;
	__sync_fetch_and_add(&live_threads, -1);
	leave_tid(slot, number);
	bpf_map_push_elem(&free_slots, &number, BPF_ANY);
	return 0;
}

/* Its thread is gone. */
static __always_inline void forget(struct task_struct *task, struct sched_slot *slot)
{
	__u32 *reference = bpf_task_storage_get(&slot_of_task, task, 0, 0);

	if (!reference)
		return;
	*reference = 0;
	free_slot(slot);
}

/* Where the thread may run, and how much it counts beside others. */
static __always_inline void tell_place(struct task_struct *task, struct sched_task *record)
{
	/* A mask is as long as the kernel has CPUs. */
	__u64 size = bpf_core_type_size(struct cpumask);

	if (size > sizeof(record->allowed))
		size = sizeof(record->allowed);
	bpf_probe_read_kernel(record->allowed, size, (void *)BPF_CORE_READ(task, cpus_ptr));
	record->allowed_count = BPF_CORE_READ(task, nr_cpus_allowed);
	record->priority = BPF_CORE_READ(task, prio);
}

/* Tells user space of a thread: it came, changed or went. `there` is 0 if its task is not. */
__noinline int tell_task(struct sched_slot *slot, __u32 event, __u64 now, __u32 there)
{
	struct sched_task *record;
	__u64 criticality;

	if (!slot)
		return 0;
	if (event == SCHED_TASK_EXIT) {
		tell_brief(slot);
		if (slot->brief.count)
			__sync_fetch_and_add(&lost.waits, slot->brief.count);
	}
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&lost.tasks, 1);
		return 0;
	}
	criticality = slot->thread.gained;
	record->type = SCHED_RECORD_TASK;
	record->event = event;
	record->task = slot->task;
	record->parent = slot->parent;
	record->tid = slot->tid;
	record->tgid = slot->tgid;
	record->ns_tid = slot->ns_tid;
	record->ns_tgid = slot->ns_tgid;
	record->parent_tgid = slot->parent_tgid;
	record->application = slot->application;
	record->time = now;
	record->criticality = criticality;
	record->unattributed = criticality > slot->thread.sampled ? criticality - slot->thread.sampled : 0;
	record->running_ns = slot->thread.running_ns;
	record->runnable_ns =
		slot->thread.active_ns > slot->thread.running_ns ? slot->thread.active_ns - slot->thread.running_ns : 0;
	record->blocked_ns = slot->thread.blocked_ns;
	__builtin_memset(record->allowed, 0, sizeof(record->allowed));
	record->allowed_count = 0;
	record->priority = 0;
	record->comm[0] = 0;
	if (there) {
		tell_place(task_of(slot), record);
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm),
					  &task_of(slot)->comm);
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
