/*
 * Begins and ends of feature regions, seen from the kernel: uprobes at the sites of a program's regions, and births and
 * ends of its threads and processes, all in one ring buffer, so that each thread's events are in their order.
 */
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "region_events_abi.h"
#include "task_number.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CLONE_THREAD 0x10000
#define MAX_PROCESSES 16384
#define RING_BYTES (32 << 20)

struct signal_struct___live {
	struct {
		int counter;
	} live;
} __attribute__((preserve_access_index));

const volatile struct region_settings settings = {};
struct region_counts counts = {};

/* Processes that are recorded, as user space numbers them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, __s32);
	__type(value, __u32);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

static __always_inline __s32 number_of(struct task_struct *task)
{
	return settings.initial ? BPF_CORE_READ(task, pid) : number_in(task, settings.recorder_namespace);
}

static __always_inline __s32 process_of(struct task_struct *task)
{
	return settings.initial ? BPF_CORE_READ(task, tgid) :
				  number_in(BPF_CORE_READ(task, group_leader), settings.recorder_namespace);
}

static __always_inline void tell(__u64 time, __u64 what, __u64 stack, __s32 tgid, __s32 tid)
{
	struct region_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&counts.lost, 1);
		return;
	}
	event->time = time;
	event->what = what;
	event->stack = stack;
	event->tgid = tgid;
	event->tid = tid;
	/* User space looks every millisecond. */
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void tell_task(enum region_task what, __u64 stack, __s32 tgid, __s32 tid)
{
	tell(bpf_ktime_get_ns(), (__u64)REGION_KIND_TASK << REGION_KIND_SHIFT | what, stack, tgid, tid);
}

static __always_inline int at_site(struct pt_regs *registers)
{
	__u64 time = bpf_ktime_get_ns(), kind;
	struct task_struct *task = (void *)bpf_get_current_task();
	__s32 tgid = process_of(task);

	if (!bpf_map_lookup_elem(&followed, &tgid))
		return 0;
	kind = bpf_get_attach_cookie(registers);
	if (kind == REGION_KIND_TASK)
		tell_task(REGION_TASK_LOADED, 0, tgid, number_of(task));
	else
		tell(time, kind << REGION_KIND_SHIFT | registers->ip, registers->sp, tgid, number_of(task));
	return 0;
}

SEC("uprobe.multi")
int on_site_multi(struct pt_regs *registers)
{
	return at_site(registers);
}

SEC("uprobe")
int on_site(struct pt_regs *registers)
{
	return at_site(registers);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_new_task, struct task_struct *task, unsigned long flags)
{
	__s32 parent = process_of((void *)bpf_get_current_task()), child;
	__u32 one = 1;

	if (!bpf_map_lookup_elem(&followed, &parent))
		return 0;
	child = number_of(task);
	if (flags & CLONE_THREAD) {
		tell_task(REGION_TASK_THREAD, 0, parent, child);
	} else if (settings.follow) {
		if (bpf_map_update_elem(&followed, &child, &one, BPF_ANY))
			__sync_fetch_and_add(&counts.lost, 1);
		tell_task(REGION_TASK_FORKED, parent, child, number_of((void *)bpf_get_current_task()));
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	__s32 tgid = process_of(task);

	if (bpf_map_lookup_elem(&followed, &tgid))
		tell_task(REGION_TASK_REPLACED, 0, tgid, tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__s32 tgid = process_of(task);
	struct signal_struct___live *signal;

	if (!bpf_map_lookup_elem(&followed, &tgid))
		return 0;
	tell_task(REGION_TASK_THREAD_ENDED, 0, tgid, number_of(task));
	signal = (void *)BPF_CORE_READ(task, signal);
	if (BPF_CORE_READ(signal, live.counter) == 0) {
		tell_task(REGION_TASK_PROCESS_ENDED, 0, tgid, tgid);
		bpf_map_delete_elem(&followed, &tgid);
	}
	return 0;
}
