/* Threads of the application: a slot for each, found by its task, by its number, or by its thread id. */
#ifndef TRANSECT_SCHED_SLOT_H
#define TRANSECT_SCHED_SLOT_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "sched_brief.h"
#include "sched_maps.h"
#include "task_number.h"

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

SCHED_INLINE struct sched_application *application_of(const struct sched_slot *slot)
{
	__u32 number = slot->application;

	return bpf_map_lookup_elem(&applications, &number);
}

SCHED_INLINE __u64 tid_key(__s32 tgid, __s32 ns_tid)
{
	return (__u64)(__u32)tgid << 32 | (__u32)ns_tid;
}

/* A task's number as the recorder's pid namespace sees it, which is how user space finds it in /proc; the initial
 * namespace's if it is not in there. */
static __noinline __s32 number_for_recorder(struct task_struct *task)
{
	return number_in(task, recorder_namespace);
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

SCHED_INLINE struct sched_published *published_pages(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&published, &zero);
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

/* Follows a thread from now on; it is blocked until something else is seen. Returns its slot, null if there is no
 * room. */
static __noinline __u32 follow(struct task_struct *task, __u32 application, __u32 parent)
{
	__u32 number = 0;
	struct sched_slot *slot;
	struct task_struct *leader;
	struct own_number own;
	__u32 *reference;

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
	slot->kernel_task = (__u64)task;
	slot->registers = 0;
	slot->task = __sync_fetch_and_add(&last_task, 1) + 1;
	slot->parent = parent;
	slot->application = application;
	leader = BPF_CORE_READ(task, group_leader);
	slot->kernel_tid = BPF_CORE_READ(task, pid);
	slot->tid = number_for_recorder(task);
	slot->tgid = number_for_recorder(leader);
	own = own_number(task);
	slot->ns_tid = own.number;
	slot->ns_tgid = own_number(leader).number;
	slot->parent_tgid = number_for_recorder(BPF_CORE_READ(leader, real_parent));
	slot->stray = 0;
	slot->holder_slot = 0;
	slot->stack_wanted = 0;
	slot->answer_time = 0;
	slot->last_stack_time = 0;
	slot->preempted_since = 0;
	slot->preempted_last = 0;
	slot->preempted_ns = 0;
	slot->undetailed = 0;
	slot->describing = SCHED_DESCRIBING_NOT;
	slot->habit = 0;
	__builtin_memset(slot->habits, 0, sizeof(slot->habits));
	__builtin_memset(&slot->brief, 0, sizeof(slot->brief));
	slot->burst_time = 0;
	slot->slices = 0;
	__builtin_memset(slot->marks, 0, sizeof(slot->marks));
	slot->slice_running = 0;
	slot->met = audit_round;
	take_tid(slot, number);
	reference = bpf_task_storage_get(&slot_of_task, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reference) {
		__sync_fetch_and_add(&lost.threads, 1);
		slot->task = 0;
		return 0;
	}
	*reference = number;
	take_place(slot->kernel_tid, number);
	__sync_fetch_and_add(&live_threads, 1);
	claim_published(slot, own);
	return number;
}

/* Of system_call_time.h. */
static __noinline int end_system_calls(struct sched_slot *slot, __u32 place);

/* The slot may be used again. */
static __noinline int free_slot(struct sched_slot *slot, __u32 number)
{
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
static __noinline int forget(struct task_struct *task, struct sched_slot *slot)
{
	__u32 *reference = bpf_task_storage_get(&slot_of_task, task, 0, 0);
	__u32 number;

	if (!reference)
		return 0;
	number = *reference;
	*reference = 0;
	free_slot(slot, number);
	return 0;
}

/* Tells user space of a thread: it came, changed or went. `task` is null if it is no longer there. */
static __noinline int tell_task(struct sched_slot *slot, struct task_struct *task, __u32 event, __u64 now)
{
	struct sched_task *record;
	__u64 criticality;

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
	record->comm[0] = 0;
	if (task)
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), &task->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
