/* What runs over all threads of the machine for user space: threads are followed from the outset, and audited. */
#ifndef TRANSECT_SCHED_AUDIT_H
#define TRANSECT_SCHED_AUDIT_H

#include "sched_activity.h"
#include "sched_waiting.h"

#define TASK_WAKING 0x200
#define PF_KTHREAD 0x00200000

/* Whether a task is in the cgroup or below it. */
static __always_inline bool in_cgroup(struct task_struct *task, __u64 id)
{
	struct cgroup *cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	struct kernfs_node *node = BPF_CORE_READ(cgroup, kn);
	int depth;

	for (depth = 0; depth < 16 && node; depth++) {
		if (BPF_CORE_READ(node, id) == id)
			return true;
		node = bpf_core_field_exists(node->parent) ?
			       BPF_CORE_READ(node, parent) :
			       BPF_CORE_READ((struct kernfs_node___6_15 *)node, __parent);
	}
	return false;
}

/* The thread was blocked before: its registers tell what for, but its stack and its lock's memory are out of reach. */
static __always_inline void begin_met_wait(struct sched_slot *slot, struct task_struct *task,
					   struct sched_application *application, __u64 now)
{
	__builtin_memset(&slot->wait, 0, sizeof(slot->wait));
	slot->wait.type = SCHED_RECORD_WAIT;
	slot->wait.task = slot->task;
	slot->wait.application = slot->application;
	describe_late(slot, task);
	slot->wait.call = SYSTEM_CALL_UNKNOWN;
	slot->wait.n = application->clock.active;
	slot->wait.slice_begin = now;
	slot->wait.begin = now;
	slot->undetailed = 0;
	slot->blocked_low = application->clock.low;
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
static __noinline __u32 seeded_application(struct task_struct *leader)
{
	struct process_search search = { .tgid = number_for_recorder(leader) };
	struct sched_slot *first;
	__u32 *number;
	__u64 key;

	if (!per_process)
		return 0;
	/* The leader comes before its threads, unless it has ended. */
	key = tid_key(search.tgid, own_number(leader).number);
	number = bpf_map_lookup_elem(&slot_by_tid, &key);
	if (!number) {
		bpf_loop(last_slot, is_of_process, &search, 0);
		number = &search.slot;
	}
	first = slot_numbered(*number);
	return first ? first->application : new_application();
}

/* Follows a thread that runs already, as it is found. */
static __noinline int start_following(struct task_struct *task)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct sched_application *application;
	struct sched_published *pages;
	struct sched_slot *slot;
	bool active;
	__u64 now;

	slot = slot_numbered(follow(task, seeded_application(leader), 0));
	if (!slot)
		return 0;
	application = application_of(slot);
	pages = published_pages();
	if (!application || !pages)
		return 0;
	now = bpf_ktime_get_ns();
	active = really_active(task);
	if (!active && with_waits)
		begin_met_wait(slot, task, application, now);
	bpf_spin_lock(&application->lock);
	sched_seed(&application->clock, &slot->thread, now, active, processors);
	publish(pages, slot, &application->clock, 0);
	bpf_spin_unlock(&application->lock);
	if (task->on_cpu && !slot->thread.on_cpu_since)
		sched_get_cpu(&slot->thread, now);
	tell_task(slot, task, SCHED_TASK_SEEDED, now);
	return 0;
}

/* One of the threads that are wanted? */
static __noinline int seed(struct task_struct *task)
{
	struct task_struct *leader;

	if (task->flags & PF_KTHREAD || task->exit_state)
		return 0;
	leader = BPF_CORE_READ(task, group_leader);
	if (wanted_tgid ? number_for_recorder(leader) != wanted_tgid : !in_cgroup(task, wanted_cgroup))
		return 0;
	return start_following(task);
}

/* Counted otherwise than it is, twice in a row without an event between: mended, and told. */
static __noinline int check(struct sched_slot *slot, struct task_struct *task)
{
	struct sched_instant instant;
	bool active = really_active(task);

	slot->met = audit_round;
	__sync_fetch_and_add(&audit.followed, 1);
	if (active)
		__sync_fetch_and_add(&audit.active, 1);
	if (active == !!slot->thread.active) {
		slot->stray = 0;
		if (!active && slot->undetailed && bpf_ktime_get_ns() - slot->wait.begin >= BRIEF_MOST)
			describe_late(slot, task);
		return 0;
	}
	if (!slot->stray) {
		slot->stray = 1;
		return 0;
	}
	__sync_fetch_and_add(&audit.strays, 1);
	if (active)
		mend(slot, task, bpf_ktime_get_ns());
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
	tell_task(slot, 0, SCHED_TASK_EXIT, instant.time);
	free_slot(slot, number);
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
	if (request == SCHED_REQUEST_FOLLOW && !slot)
		seed(task);
	if (request == SCHED_REQUEST_AUDIT && slot)
		check(slot, task);
	return 0;
}

#endif
