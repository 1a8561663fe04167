/* What runs over all threads of the machine for user space: threads are followed from the outset, and audited. Functions that
 * are not static are verified by themselves: see unwind.bpf.h. */
#ifndef TRANSECT_SCHED_AUDIT_H
#define TRANSECT_SCHED_AUDIT_H

#include "kernel_names.h"
#include "sched_activity.h"
#include "sched_waiting.h"

#define TASK_WAKING 0x200
#define PF_KTHREAD 0x00200000

/* Whether a task is the recorder's, or of a child of it: its work is nobody's whom it records. */
static __always_inline bool is_recorders(__u64 task)
{
	__u64 leader = (__u64)BPF_CORE_READ((struct task_struct *)task, group_leader);

	return number_for_recorder(leader) == recorder_tgid || parent_for_recorder(leader) == recorder_tgid;
}

/* Whether a task is a program's, and in the cgroup or below it. In the root all are, be a hierarchy mounted or not. */
__noinline int in_cgroup(__u64 task, __u64 id)
{
	struct cgroup *cgroup;
	struct kernfs_node *node;
	int depth;

	if (BPF_CORE_READ((struct task_struct *)task, flags) & PF_KTHREAD || is_recorders(task))
		return 0;
	if (id == SCHED_ROOT_CGROUP)
		return 1;
	cgroup = BPF_CORE_READ((struct task_struct *)task, cgroups, dfl_cgrp);
	node = BPF_CORE_READ(cgroup, kn);

	for (depth = 0; depth < 16 && node; depth++) {
		if (BPF_CORE_READ(node, id) == id)
			return 1;
		node = bpf_core_field_exists(node->parent) ?
			       BPF_CORE_READ(node, parent) :
			       BPF_CORE_READ((struct kernfs_node___6_15 *)node, __parent);
	}
	return 0;
}

/* The thread was blocked before: its registers tell what for, but its stack and its lock's memory are out of reach. */
__noinline int begin_met_wait(struct sched_slot *slot, __u64 now)
{
	struct sched_application *application;

	if (!slot)
		return 0;
	application = application_of(slot);
	if (!application)
		return 0;
	__builtin_memset(&slot->wait, 0, sizeof(slot->wait));
	slot->wait.type = SCHED_RECORD_WAIT;
	slot->wait.task = slot->task;
	slot->wait.application = slot->application;
	describe_late(slot);
	slot->wait.call = SYSTEM_CALL_UNKNOWN;
	slot->wait.n = application->clock.active;
	slot->wait.slice_begin = now;
	slot->wait.begin = now;
	slot->undetailed = 0;
	slot->blocked_criticality = application->clock.criticality;
	slot->blocked_low = application->clock.low;
	return 0;
}

/* What the scheduler itself says: queued or about to be, and not merely kept in the queue after blocking. */
static __always_inline bool really_active(struct task_struct *task)
{
	unsigned int state = task->__state;

	if (!state || state == TASK_WAKING)
		return true;
	if (bpf_core_field_exists(task->se.sched_delayed) && BPF_CORE_READ(task, se.sched_delayed))
		return false;
	return task->on_rq != 0;
}

struct process_search {
	__s32 tgid;
	__u32 slot;
};

static long is_of_process(__u32 index, void *context)
{
	struct process_search *search = context;
	struct sched_slot *slot = slot_numbered(index + 1);

	if (!slot)
		return 1;
	if (!slot->task || slot->tgid != search->tgid)
		return 0;
	search->slot = index + 1;
	return 1;
}

/* The application of a thread that is followed from the outset: its process's, if any other thread of that is followed. */
__noinline __u32 seeded_application(__u64 leader)
{
	struct process_search search = {};
	struct sched_slot *first;
	__u32 *number;
	__u64 key;

	if (!per_process)
		return 0;
	search.tgid = number_for_recorder(leader);
	/* The leader comes before its threads, unless it has ended. */
	key = tid_key(search.tgid, own_number((struct task_struct *)leader).number);
	number = bpf_map_lookup_elem(&slot_by_tid, &key);
	if (!number) {
		bpf_loop(last_slot, is_of_process, &search, 0);
		number = &search.slot;
	}
	first = slot_numbered(*number);
	return first ? first->application : new_application();
}

/* Says what the thread does that is followed from now on. */
static __always_inline int seed_as(struct sched_slot *slot, bool active, bool on_cpu)
{
	struct sched_application *application = application_of(slot);
	struct sched_published *pages = published_pages();
	__u64 now;

	if (!application || !pages)
		return 0;
	now = bpf_ktime_get_ns();
	if (!active && with_waits)
		begin_met_wait(slot, now);
	bpf_spin_lock(&application->lock);
	sched_seed(&application->clock, &slot->thread, now, active, cpus);
	publish(pages, slot, &application->clock, 0);
	bpf_spin_unlock(&application->lock);
	if (on_cpu && !slot->thread.on_cpu_since)
		sched_get_cpu(&slot->thread, now);
	tell_task(slot, SCHED_TASK_SEEDED, now, 1);
	return 0;
}

__noinline int seed_state(struct sched_slot *slot, __u32 active, __u32 on_cpu)
{
	return slot ? seed_as(slot, active, on_cpu) : 0;
}

__noinline int seed_current(struct sched_slot *slot)
{
	return slot ? seed_as(slot, true, true) : 0;
}

/* Follows a thread that runs already, as it is found. */
static __always_inline void start_following(struct task_struct *task)
{
	__u64 leader = (__u64)BPF_CORE_READ(task, group_leader);
	struct sched_slot *slot = follow(task, seeded_application(leader), 0);

	if (slot)
		seed_state(slot, really_active(task), task->on_cpu);
}

/* The same of the current thread. */
static __always_inline void start_following_current(struct task_struct *task)
{
	__u64 leader = (__u64)BPF_CORE_READ(task, group_leader);
	struct sched_slot *slot = follow(task, seeded_application(leader), 0);

	if (slot)
		seed_current(slot);
}

/* One of the threads that are wanted? */
static __always_inline void seed(struct task_struct *task)
{
	__u64 leader;

	if (task->flags & PF_KTHREAD || task->exit_state)
		return;
	leader = (__u64)BPF_CORE_READ(task, group_leader);
	if (wanted_tgid ? number_for_recorder(leader) == wanted_tgid : in_cgroup(address_of(task), wanted_cgroup))
		start_following(task);
}

/* Counted otherwise than it is, twice in a row without an event between: mended, and told. */
__noinline int check(struct sched_slot *slot, __u32 active)
{
	struct sched_instant instant;

	if (!slot)
		return 0;
	slot->met = audit_round;
	__sync_fetch_and_add(&audit.followed, 1);
	if (active)
		__sync_fetch_and_add(&audit.active, 1);
	if (active == !!slot->thread.active) {
		slot->stray = 0;
		if (!active && slot->undetailed && bpf_ktime_get_ns() - slot->wait.begin >= BRIEF_MOST)
			describe_late(slot);
		return 0;
	}
	if (!slot->stray) {
		slot->stray = 1;
		return 0;
	}
	__sync_fetch_and_add(&audit.strays, 1);
	if (active)
		make_active_untold(slot, bpf_ktime_get_ns());
	else
		block(slot, bpf_ktime_get_ns(), &instant, 0);
	return 0;
}

/* A slot whose thread two audits have not met: its end was not seen. */
static long check_slot(__u32 index, void *context)
{
	__u32 number = index + 1;
	struct sched_slot *slot = slot_numbered(number);
	struct sched_instant instant;

	if (!slot)
		return 1;
	if (!slot->task || audit_round - slot->met < 2)
		return 0;
	if (slot->thread.active)
		__sync_fetch_and_add(&audit.strays, 1);
	if (!block(slot, bpf_ktime_get_ns(), &instant, 1))
		return 0;
	tell_task(slot, SCHED_TASK_EXIT, instant.time, 0);
	free_slot(slot);
	return 0;
}

/* Runs over all threads of the machine, for user space: see `request`. */
SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct sched_slot *slot;

	if (!task) {
		/* The end. */
		if (request == SCHED_REQUEST_AUDIT) {
			bpf_loop(last_slot, check_slot, 0, 0);
			audit_round++;
		}
		return 0;
	}
	slot = slot_of(task);
	if (!only_launched && request == SCHED_REQUEST_FOLLOW && !slot)
		seed(task);
	if (request == SCHED_REQUEST_AUDIT && slot)
		check(slot, really_active(task));
	return 0;
}

/* Prints names of the kernel's functions for user space. Apart, for it is wanted of programs that end before on_task is
 * loaded. */
SEC("iter/task")
int on_names(struct bpf_iter__task *ctx)
{
	if (!ctx->task)
		print_names(ctx->meta->seq);
	return 0;
}

#endif
