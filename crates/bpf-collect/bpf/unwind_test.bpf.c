// Stacks of chosen processes when they block and on a timer, for the tests of unwind.bpf.h.
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "unwind.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct bpf_perf_event_data;

#define PF_KTHREAD 0x00200000

enum unwind_test_context {
	UNWIND_TEST_BLOCK,
	UNWIND_TEST_SAMPLE,
	UNWIND_TEST_CONTEXTS,
};

struct unwind_test_stack {
	__s32 tgid, tid;
	__u32 context; /* enum unwind_test_context */
	__u32 flags;
	__u64 sp, unknown;
	__u32 ns; /* what the walk took */
	__u32 count;
	__u64 frames[UNWIND_MAX_FRAMES];
};

const struct unwind_test_layouts {
	struct unwind_test_stack stack;
} unwind_test_layouts = {};

/* By context, so that a timer's interrupt finds room of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UNWIND_TEST_CONTEXTS);
	__type(key, __u32);
	__type(value, struct unwind_walk);
} walks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} stacks SEC(".maps");

__u64 lost;

static __noinline int take(__u32 context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;
	if (task->flags & PF_KTHREAD || !bpf_map_lookup_elem(&wanted, &tgid))
		return 0;
	struct unwind_walk *walk = bpf_map_lookup_elem(&walks, &context);
	if (!walk)
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	walk->ip = regs->ip;
	walk->sp = regs->sp;
	walk->bp = regs->bp;
	walk->bx = regs->bx;
	walk->tgid = tgid;
	walk->max = UNWIND_MAX_FRAMES;
	__u64 sp = walk->sp;
	__u64 begin = bpf_ktime_get_ns();
	unwind_user(walk);
	__u64 end = bpf_ktime_get_ns();
	struct unwind_test_stack *out = bpf_ringbuf_reserve(&stacks, sizeof(*out), 0);
	if (!out) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	out->tgid = tgid;
	out->tid = task->pid;
	out->context = context;
	out->flags = walk->flags;
	out->sp = sp;
	out->unknown = walk->unknown;
	out->ns = end - begin;
	out->count = walk->count;
	__builtin_memcpy(out->frames, walk->frames, sizeof(out->frames));
	bpf_ringbuf_submit(out, 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (preempt || !prev->__state)
		return 0;
	return take(UNWIND_TEST_BLOCK);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid, one = 1;
	if (parent_tgid == child_tgid || !bpf_map_lookup_elem(&wanted, &parent_tgid))
		return 0;
	bpf_map_update_elem(&wanted, &child_tgid, &one, BPF_ANY);
	unwind_fork(parent_tgid, child_tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	unwind_forget(task->tgid);
	return 0;
}

SEC("perf_event")
int on_timer(struct bpf_perf_event_data *context)
{
	return take(UNWIND_TEST_SAMPLE);
}
