/* Maps, settings and counters of the scheduler collector. */
#ifndef TRANSECT_SCHED_MAPS_H
#define TRANSECT_SCHED_MAPS_H

#include "sched_abi.h"
#include "sched_published.h"
#include "sched_state.h"

/* Set before loading. */
const volatile __u32 stack_depth = SCHED_MAX_FRAMES;
const volatile __u32 per_process = 0; /* each process is an application of its own */
const volatile bool only_launched; /* nothing is followed but a program that is launched and what comes of it */
const volatile __u32 with_waits = 1; /* what each wait is for, and a record of it; without: criticality alone */
const volatile __u32 with_stacks = 1;
const volatile __u32 with_system_calls = 0; /* exact times of system calls: the programs of system_call_time.h are loaded */
const volatile __u64 own_call_mark; /* in r15 where the flow agent makes a system call */
const volatile __u32 recorder_namespace = 0; /* number of the pid namespace that user space lives in */
const volatile __s32 recorder_tgid = 0; /* user space's process, as it sees it */
const volatile __u32 publish_threads = 0; /* the flow agent reads what threads have gained */
const volatile bool kernel_halves; /* of waits' stacks also where the system call says all about the wait */
const volatile bool with_queued; /* samples, too, for threads that were mostly queued */
const volatile bool with_preemptions; /* a record of each, with its stack */
const volatile __u32 wait_budget = 0; /* ns a second and CPU that describing waits may take; 0: all are described */
const volatile bool timed_samples = 1; /* samples come by time, not by another event */
const volatile __u64 stack_period = 1000000; /* ns: at high parallelism a thread's stacks are this far apart */

/* Set before loading, and by user space when threads' affinities change. */
volatile __u32 cpus = 0; /* that the program may use: P */
volatile __u32 min_parallelism = 0; /* fewer active threads than this are worth a stack */

/* What could not be kept; see sched_lost. */
struct sched_lost lost = {};
__u32 last_task = 0; /* task numbers given out */
__u32 last_slot = 0; /* slots given out for the first time; 0 is none */
__u32 last_application = 0;
__s32 live_threads = 0; /* followed and not ended */
__u64 unknown_code_told = 0; /* when user space last got notice of code without a table */

/* What the next run of on_task is to do, and what it found; set and read by user space around it. */
__u32 request = SCHED_REQUEST_NOTHING;
__s32 wanted_tgid = 0; /* as the recorder sees it; 0: those in wanted_cgroup or below it */
__u64 wanted_cgroup = 0;
struct sched_audit audit = {};
__u64 followed_cgroup = 0; /* whoever comes into it is followed from then on; 0: none is */
__u32 cgroup_entered = 0; /* processes came into it: user space has to look for their other threads */
/* A process that was forked to become the program to record: it is followed from its exec on. As the recorder sees it. */
__s32 launched_tgid = 0;
__u32 audit_round = 0; /* how many audits there were */

/* All threads that count together. The lock guards the clock; programs of the perf_event type may not refer to a map
 * with a lock, so each change is published beside it. */
struct sched_application {
	struct bpf_spin_lock lock;
	struct sched_clock clock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHED_MAX_APPLICATIONS);
	__type(key, __u32);
	__type(value, struct sched_application);
} applications SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sched_published);
} published SEC(".maps");

/* A thread that made another one runnable, as sched_waking saw it. */
struct sched_waking {
	__u64 time;
	__u64 stack;
	__u32 task, slot;
	__u32 context;
	char comm[16];
};

#define WAIT_HABITS 8 /* a power of two */
#define WAIT_PLACES 8 /* likewise */

/* A place where a thread waits, and the last stack there; sched_place.h. */
struct wait_place {
	__u64 stack;
	__u32 place; /* a hash */
	__u32 unused;
};

/* What a thread had gained at low parallelism, and what its application's clock had then. */
struct gain_mark {
	__u64 low, gained;
};

/* How far a thread had come at one instant. */
struct sched_progress {
	__u64 criticality, low; /* fixed point: gained */
	__u64 active_ns, running_ns;
};

/* Marks are of the ends of slices: the i-th of the last one whose number is divisible by 2^i, so that they lie close for what
 * was lately, and reach far back. The last is of the thread's beginning. */
#define GAIN_MARKS 9

/*
 * A thread is off the application's active ones before its wait is described, and from then on another CPU can wake
 * it. The waker leaves the end of a wait that is being described to the CPU that describes it:
 *
 *   describes:  describing = NOW; [lock] active = 0 [unlock]; ...; NOW -> NOT (at once), or it is WOKEN: ends the wait
 *   wakes:      [lock] active = 1 [unlock]; NOW -> WOKEN (at once), or it is NOT: ends the wait
 *
 * A waker that finds the thread blocked has taken the lock after it, so it sees NOW or what came later. Where a wake-up was
 * missed, WOKEN leaves the end of the wait to the thread's next switch: see make_active_untold.
 */
enum sched_describing {
	SCHED_DESCRIBING_NOT,
	SCHED_DESCRIBING_NOW,
	SCHED_DESCRIBING_WOKEN,
};

/* A live thread. Slots are used again; `task` tells whether it is still the same one. */
struct sched_slot {
	/* What every block and wake-up needs comes first, in a few cache lines. */
	struct sched_thread thread;
	__u64 kernel_task, registers; /* addresses of its task_struct and of its saved user registers */
	__u32 task;
	__u32 application;
	__u32 published; /* its record in the published pages */
	__u32 stray; /* the last audit found it counted wrongly; an event makes it 0 */
	__s32 kernel_tid, tgid;
	__u32 undetailed; /* `wait` says when, not what for */
	__u32 habit; /* where in `habits` the wait is */
	__u32 number; /* the slot's */
	__u32 stack_wanted; /* somebody waits for what this thread holds: its next stack is kept for them */
	__u32 holder_slot, holder_task; /* the wait's lock holder */
	__u32 describing; /* enum sched_describing of `wait` */
	__u64 slice_running; /* running_ns when the open slice began */
	__u64 blocked_criticality, blocked_low; /* the clock's when the wait began */
	__u32 habits[WAIT_HABITS]; /* ns: how long waits at a place took lately; sched_brief.h */
	struct sched_brief brief; /* waits that were not described */
	struct sched_wait wait; /* the one that it is in, or the last */
	struct sched_waking waking;
	struct sched_progress holder_then; /* the holder's when the wait began */
	struct gain_mark marks[GAIN_MARKS];
	__u32 slices; /* that have ended */
	__u64 answer_time, answer_stack; /* the stack for those who wanted it */
	__u64 last_stack_time;
	/* Where it was preempted, and since when it has been (0: it is not); when its last such stack was taken, and how long it
	 * then was without a CPU. */
	__u64 preempted_stack, preempted_since, preempted_last, preempted_ns;
	__u64 preempted_untold; /* since when it has been, and no stack tells where */
	__u32 preempted_call;
	__u32 call_returns; /* it lost its CPU between the end of a system call and user space; system_call_return.h */
	__u32 place; /* of `wait`; sched_place.h */
	__u32 new_place; /* no stack of it was known, and the wait is described for that */
	/* Time without a CPU of which no sample has told yet: after a wait, and after the CPU was lost; sched_queued.h. */
	__u64 queued_ns, preempted_queued_ns;
	__u64 places_paid; /* until then, such waits are paid for; sched_brief.h */
	struct wait_place places[WAIT_PLACES];
	/* Addresses of what `wait.object` describes, and its name's hash; of a datagram socket, whose peer may change, which one
	 * it is and a hash of the peer. */
	__u64 object_file, object_inode, object_name, datagrams, datagrams_peer;
	/* The stack that it last woke others with, valid while it is still in the same system call. */
	__u64 burst_ip, burst_sp, burst_arguments, burst_time, burst_stack;
	__u32 parent;
	__s32 tid, ns_tid, ns_tgid, parent_tgid;
	__u32 met; /* the last audit that met its thread */
	struct sched_instant woken; /* while its wait was being described */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SCHED_MAX_THREADS);
	__type(key, __u32);
	__type(value, struct sched_slot);
} slots SEC(".maps");

/* Slots of threads that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SCHED_MAX_THREADS);
	__type(value, __u32);
} free_slots SEC(".maps");

/* Which slot a thread of the application has. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} slot_of_task SEC(".maps");

/* The same by the kernel's thread id, modulo the size: one load instead of a helper call for each task of each event. Two
 * followed threads that meet in a place make it `shared`; there the task's storage decides. */
#define SLOT_PLACES 65536
struct slot_place {
	__s32 pid; /* 0: nobody's */
	__u32 slot;
	__u32 shared;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOT_PLACES);
	__type(key, __u32);
	__type(value, struct slot_place);
} slot_places SEC(".maps");

/* The same by number, for what a lock's memory says of its owner: (process or 0, thread id in its pid namespace). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * SCHED_MAX_THREADS);
	__type(key, __u64);
	__type(value, __u32);
} slot_by_tid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

/* Stacks sent already, by a part of their hash: what falls on the same place is sent again. */
#define SENT_STACKS 16384
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SENT_STACKS);
	__type(key, __u32);
	__type(value, __u64);
} sent_stacks SEC(".maps");

#endif
