/*
 * The scheduler collector's programs as plain functions, with a kernel around them that a test drives: tasks, a clock,
 * maps, a ring buffer. Stacks and memory of user programs can't be read here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Settings are constants in the kernel, set before loading. */
#define const
#include "../../bpf/sched_criticality.bpf.c"
#undef const

#define FAIL(...) (fprintf(stderr, __VA_ARGS__), abort())

struct mock_task {
	struct task_struct task; /* first: the programs know its address */
	struct pt_regs registers;
	struct pid pid;
	__u32 storage, has_storage;
};

#define TASKS 4096
#define MAPS 32
#define ENTRIES 8192

static struct mock_task tasks[TASKS];
static struct pid_namespace root_namespace = { .ns = { .inum = 7 } };
static __u64 now;
static struct task_struct *current;
static int locked;

/* A wake-up on another CPU that happens as soon as its thread's wait has begun there. */
static struct {
	struct task_struct *task, *waker;
	__u64 time;
} racing;
static char kernel_stack[KERNEL_STACK];

static struct mock_map {
	void *map;
	char *values;
} maps[MAPS];

/* The only hash map: threads by number. */
static struct {
	__u64 key;
	__u32 value, used;
} entries[ENTRIES];

static __u32 stack[SCHED_MAX_THREADS], stack_height;

/* The ring buffer: length and bytes of each record. */
static char *ring;
static size_t ring_used, ring_size, ring_read;
static int ring_full;

#include "details.h"

static void no_lock(char *helper)
{
	if (locked)
		FAIL("%s under a lock: the verifier refuses it\n", helper);
}

void *mock_lookup(void *map, unsigned long type, unsigned long count, unsigned long size, void *key)
{
	int i;

	no_lock("bpf_map_lookup_elem");
	if (type == BPF_MAP_TYPE_HASH) {
		for (i = 0; i < ENTRIES; i++)
			if (entries[i].used && entries[i].key == *(__u64 *)key)
				return &entries[i].value;
		return 0;
	}
	if (*(__u32 *)key >= count)
		return 0;
	for (i = 0; i < MAPS && maps[i].map && maps[i].map != map; i++)
		;
	if (i == MAPS)
		FAIL("too many maps\n");
	if (!maps[i].map) {
		maps[i].map = map;
		maps[i].values = calloc(count, size);
	}
	return maps[i].values + *(__u32 *)key * size;
}

long mock_update(void *map, unsigned long type, unsigned long count, unsigned long size, void *key, void *value)
{
	__u32 *old;
	int i;

	if (type != BPF_MAP_TYPE_HASH || size != sizeof(__u32))
		FAIL("a map that this test does not know is updated\n");
	old = mock_lookup(map, type, count, size, key);
	if (old) {
		*old = *(__u32 *)value;
		return 0;
	}
	for (i = 0; i < ENTRIES; i++)
		if (!entries[i].used) {
			entries[i].used = 1;
			entries[i].key = *(__u64 *)key;
			entries[i].value = *(__u32 *)value;
			return 0;
		}
	return -1;
}

long mock_delete(void *map, void *key)
{
	int i;

	no_lock("bpf_map_delete_elem");
	for (i = 0; i < ENTRIES; i++)
		if (entries[i].used && entries[i].key == *(__u64 *)key) {
			entries[i].used = 0;
			return 0;
		}
	return -1;
}

long mock_push(void *value)
{
	if (stack_height == SCHED_MAX_THREADS)
		return -1;
	stack[stack_height++] = *(__u32 *)value;
	return 0;
}

long mock_pop(void *value)
{
	if (!stack_height)
		return -1;
	*(__u32 *)value = stack[--stack_height];
	return 0;
}

/* The same numbers in each run. */
__u32 bpf_get_prandom_u32(void)
{
	static __u32 random = 1;

	random = random * 1664525u + 1013904223u;
	return random >> 8 | random << 24;
}

void *bpf_task_storage_get(void *map, struct task_struct *task, void *value, __u64 flags)
{
	struct mock_task *mock = (struct mock_task *)task;

	no_lock("bpf_task_storage_get");
	if (flags & BPF_LOCAL_STORAGE_GET_F_CREATE)
		mock->has_storage = 1;
	return mock->has_storage ? &mock->storage : 0;
}

__u64 bpf_ktime_get_ns(void)
{
	no_lock("bpf_ktime_get_ns");
	return now;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return current;
}

long bpf_task_pt_regs(struct task_struct *task)
{
	return (long)&((struct mock_task *)task)->registers;
}

/* The wake-up happens now, unless it has. */
void kernel_race(void)
{
	struct task_struct *task = racing.task, *saved_current = current;
	__u64 saved_now = now;

	if (!task)
		return;
	racing.task = 0;
	current = racing.waker;
	now = racing.time;
	on_waking(kernel_stack, task);
	current = saved_current;
	now = saved_now;
}

void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	no_lock("bpf_spin_lock");
	locked = 1;
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	if (!locked)
		FAIL("bpf_spin_unlock without a lock\n");
	locked = 0;
	kernel_race();
}

void *bpf_ringbuf_reserve(void *buffer, __u64 size, __u64 flags)
{
	no_lock("bpf_ringbuf_reserve");
	if (ring_full)
		return 0;
	if (ring_used + sizeof(size) + size > ring_size) {
		ring_size = 2 * (ring_used + sizeof(size) + size);
		ring = realloc(ring, ring_size);
	}
	memcpy(ring + ring_used, &size, sizeof(size));
	ring_used += sizeof(size) + size;
	return ring + ring_used - size;
}

void bpf_ringbuf_submit(void *data, __u64 flags)
{
}

void bpf_ringbuf_discard(void *data, __u64 flags)
{
	FAIL("records are not discarded\n");
}

long bpf_ringbuf_output(void *buffer, void *data, __u64 size, __u64 flags)
{
	void *place = bpf_ringbuf_reserve(buffer, size, flags);

	if (!place)
		return -1;
	memcpy(place, data, size);
	return 0;
}

long bpf_get_stack(void *context, void *buffer, __u32 size, __u64 flags)
{
	return -1;
}

long bpf_loop(__u32 count, void *function, void *context, __u64 flags)
{
	long (*step)(__u32, void *) = function;
	__u32 i;

	for (i = 0; i < count; i++)
		if (step(i, context))
			return i + 1;
	return count;
}

long bpf_seq_printf(void *sequence, char *format, __u32 size, void *data, __u32 length)
{
	return -1;
}

long bpf_probe_read_user(void *to, __u32 size, void *from)
{
	__u64 at = (__u64)from - USER_WORDS;

	memset(to, 0, size);
	if (at >= sizeof(user_words) || size > sizeof(user_words) - at)
		return -1;
	memcpy(to, (char *)user_words + at, size);
	return 0;
}

long bpf_probe_read_kernel(void *to, __u32 size, void *from)
{
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, __u32 size, void *from)
{
	snprintf(to, size, "%s", (char *)from);
	return (long)strlen(to) + 1;
}

/* What the test calls. Tasks go by their place in `tasks`; task 0 is the idle task and everything outside. */

void kernel_reset(__u32 allowed, __u32 processes_apart)
{
	int i;

	for (i = 0; i < MAPS; i++) {
		free(maps[i].values);
		maps[i].map = 0;
		maps[i].values = 0;
	}
	memset(entries, 0, sizeof(entries));
	memset(tasks, 0, sizeof(tasks));
	memset(&lost, 0, sizeof(lost));
	memset(&audit, 0, sizeof(audit));
	stack_height = 0;
	ring_used = ring_read = 0;
	ring_full = 0;
	racing.task = 0;
	last_task = last_slot = last_application = live_threads = 0;
	request = SCHED_REQUEST_NOTHING;
	cpus = allowed;
	min_parallelism = allowed;
	per_process = processes_apart;
	recorder_namespace = root_namespace.ns.inum;
	with_stacks = 0;
	with_queued = 0;
	wait_budget = 0;
	publish_threads = 1;
	now = 0;
}

static const struct cpumask all_cpus = { { 3 } };
static struct mm_struct memory;

void kernel_new_task(__u32 index, __u32 tid, __u32 leader, __u32 parent)
{
	struct mock_task *mock = &tasks[index];

	memset(mock, 0, sizeof(*mock));
	mock->registers.orig_ax = -1;
	mock->pid.numbers[0].nr = (int)tid;
	mock->pid.numbers[0].ns = &root_namespace;
	mock->task.pid = (int)tid;
	mock->task.tgid = leader == index ? (int)tid : tasks[leader].task.tgid;
	mock->task.thread_pid = &mock->pid;
	mock->task.group_leader = &tasks[leader].task;
	mock->task.real_parent = &tasks[parent].task;
	if (!tasks[parent].task.group_leader)
		tasks[parent].task.group_leader = &tasks[parent].task;
	mock->task.stack = kernel_stack;
	mock->task.cpus_ptr = &all_cpus;
	mock->task.nr_cpus_allowed = 2;
	mock->task.prio = 120;
	mock->task.mm = &memory;
	strcpy(mock->task.comm, "task");
}

/* The one that called exec and its process's first thread exchange their numbers, and who leads. */
void kernel_take_over(__u32 index)
{
	struct mock_task *mock = &tasks[index];
	struct task_struct *leader = mock->task.group_leader;
	struct pid *pid = leader->thread_pid;
	int number = leader->pid;

	leader->pid = mock->task.pid;
	leader->thread_pid = mock->task.thread_pid;
	leader->group_leader = &mock->task;
	mock->task.pid = number;
	mock->task.thread_pid = pid;
	mock->task.group_leader = &mock->task;
}

void kernel_set_task(__u32 index, __u32 state, int on_cpu, int on_rq, int delayed, int exit_state)
{
	struct task_struct *task = &tasks[index].task;

	task->__state = state;
	task->on_cpu = on_cpu;
	task->on_rq = on_rq;
	task->se.sched_delayed = (unsigned char)delayed;
	task->exit_state = exit_state;
}

void kernel_set_now(__u64 time)
{
	now = time;
}

void kernel_set_wait_budget(__u32 ns)
{
	wait_budget = ns;
}

/* A live thread's sums of brief waits that were not told yet. */
void kernel_brief(__u32 index, __u64 *count, __u64 *ns, __u64 *active_ns)
{
	struct sched_slot *slot = slot_of(&tasks[index].task);

	*count = *ns = *active_ns = 0;
	if (slot) {
		*count = slot->brief.count;
		*ns = slot->brief.ns;
		*active_ns = slot->brief.active_ns;
	}
}

void kernel_set_ring_full(int full)
{
	ring_full = full;
}

void kernel_switch(int preempt, __u32 prev, __u32 next)
{
	current = &tasks[prev].task;
	on_switch(kernel_stack, preempt, &tasks[prev].task, &tasks[next].task);
}

void kernel_waking(__u32 waker, __u32 index)
{
	current = &tasks[waker].task;
	on_waking(kernel_stack, &tasks[index].task);
}

void kernel_prepare_race(__u32 waker, __u32 index, __u64 time)
{
	racing.task = &tasks[index].task;
	racing.waker = &tasks[waker].task;
	racing.time = time;
}

void kernel_wakeup(__u32 index, int first)
{
	(first ? on_wakeup_new : on_wakeup)(kernel_stack, &tasks[index].task);
}

void kernel_newtask(__u32 maker, __u32 index, __u64 clone_flags)
{
	current = &tasks[maker].task;
	on_new_task(kernel_stack, &tasks[index].task, clone_flags);
}

void kernel_exec(__u32 index)
{
	current = &tasks[index].task;
	on_exec(kernel_stack, &tasks[index].task, 0);
}

void kernel_sample(__u32 index)
{
	struct bpf_perf_event_data data = {};

	current = &tasks[index].task;
	on_sample(&data);
}

/* One step of a run over all tasks. */
void kernel_iterate(__u32 index, int what, int tgid)
{
	struct bpf_iter__task context = { .task = &tasks[index].task };

	request = what;
	wanted_tgid = tgid;
	wanted_cgroup = 0;
	on_task(&context);
	request = SCHED_REQUEST_NOTHING;
}

/* The end of a run. */
void kernel_iterate_end(int what)
{
	struct bpf_iter__task context = {};

	request = what;
	on_task(&context);
	request = SCHED_REQUEST_NOTHING;
}

__u64 kernel_strays(void)
{
	__u64 strays = audit.strays;

	memset(&audit, 0, sizeof(audit));
	return strays;
}

__s32 kernel_live_threads(void)
{
	return live_threads;
}

struct clock_values {
	__u64 time, criticality, low, busy, idle;
	__u32 active;
};

void kernel_clock(__u32 application, __u64 at, struct clock_values *values)
{
	struct sched_application *found = bpf_map_lookup_elem(&applications, &application);

	sched_advance(&found->clock, at, 0, cpus);
	*values = (struct clock_values){ found->clock.time, found->clock.criticality, found->clock.low,
					 found->clock.busy, found->clock.idle,	     found->clock.active };
}

__u64 kernel_histogram(__u32 application, __u32 n)
{
	struct sched_application *found = bpf_map_lookup_elem(&applications, &application);

	return found->clock.histogram[n];
}

/* Whether what is published is the application's state. */
int kernel_published(__u32 application)
{
	struct sched_application *found = bpf_map_lookup_elem(&applications, &application);
	struct sched_published_application *page = &published_pages()->applications[application];

	return page->active == found->clock.active && !(page->sequence & 1);
}

struct thread_values {
	__u64 criticality;
	__u32 task, application, active;
};

/* A live thread that is followed; task 0 if it is not. */
void kernel_thread(__u32 index, struct thread_values *values)
{
	struct sched_slot *slot = slot_of(&tasks[index].task);
	struct sched_application *application;

	*values = (struct thread_values){};
	if (!slot)
		return;
	application = application_of(slot);
	*values = (struct thread_values){ sched_criticality(&slot->thread, application->clock.criticality), slot->task,
					  slot->application, slot->thread.active };
}

/* The next record's bytes and length; null if there is none. */
void *kernel_record(__u64 *size)
{
	void *record;

	if (ring_read == ring_used)
		return 0;
	memcpy(size, ring + ring_read, sizeof(*size));
	record = ring + ring_read + sizeof(*size);
	ring_read += sizeof(*size) + *size;
	return record;
}
