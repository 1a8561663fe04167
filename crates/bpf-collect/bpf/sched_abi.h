/*
 * What the scheduler collector's programs in the kernel and its part in user space share: records of the ring buffer
 * and values of maps. The one definition: Rust's types are generated from it (build.rs).
 *
 * Times are CLOCK_MONOTONIC nanoseconds unless a name says otherwise. A task number (`task`) names one thread for the
 * whole recording and is never used twice; 0 is "none". A stack is named by the hash of its frames; 0 is "none taken".
 */
#ifndef TRANSECT_SCHED_ABI_H
#define TRANSECT_SCHED_ABI_H

#define SCHED_MAX_FRAMES 127   /* user and kernel frames of one stack */
#define SCHED_MAX_PARALLELISM 1024 /* more active threads count as this many in the histogram, not in criticality */
#define SCHED_MAX_APPLICATIONS 256
#define SCHED_MAX_THREADS 16384 /* live at once */
#define SCHED_ALLOWED_WORDS 4  /* of 64 CPUs */
#define SCHED_ROOT_CGROUP 1    /* the number of the root of cgroups (version 2) */
#define SCHED_FRACTION_BITS 16 /* of criticality in fixed point */

/* Beside numbers of system calls, which have the bit SYSTEM_CALL_COMPAT if they are the 32-bit ones. */
#define SYSTEM_CALL_COMPAT 0x20000000u
#define SYSTEM_CALL_NONE 0xffffffffu /* in none */
#define SYSTEM_CALL_UNKNOWN 0xfffffffeu /* the thread ran when it was met: its next event tells */
#define SYSTEM_CALL_PAUSED 0xfffffffdu /* not counted at present */

enum sched_record_type {
	SCHED_RECORD_TASK = 1,
	SCHED_RECORD_STACK,
	SCHED_RECORD_WAIT,
	SCHED_RECORD_SAMPLE,
	SCHED_RECORD_UNKNOWN_CODE,
	SCHED_RECORD_BRIEF,
	SCHED_RECORD_PREEMPTED,
};

enum sched_task_event {
	SCHED_TASK_SEEDED, /* was there when the recording began */
	SCHED_TASK_BORN,
	SCHED_TASK_EXEC, /* runs another program now: its mappings are new */
	SCHED_TASK_EXIT, /* totals are final */
};

/* A thread came, changed or went. */
struct sched_task {
	__u32 type;
	__u32 event;
	__u32 task;
	__u32 parent; /* task number of the thread that made it, 0 if unknown */
	__s32 tid, tgid; /* as the recorder's pid namespace numbers them */
	__s32 ns_tid, ns_tgid; /* as the thread's own does */
	__s32 parent_tgid;
	__u32 application;
	__u64 time;
	__u64 criticality; /* fixed point, ns << SCHED_FRACTION_BITS */
	__u64 unattributed; /* the same: gained since the last sample */
	__u64 running_ns, runnable_ns, blocked_ns;
	__u64 allowed[SCHED_ALLOWED_WORDS]; /* CPUs that it may use: the first ones of the machine */
	__u32 allowed_count; /* all of them; 0: unknown, and then so is `priority` */
	__s32 priority; /* as the kernel orders them: 120 and more or less by its nice value; less than 100: real-time */
	char comm[16];
};

enum sched_stack_flags {
	SCHED_STACK_COMPLETE = 1, /* reached the end of the call chain */
	SCHED_STACK_TRUNCATED = 2, /* more frames than were wanted */
	SCHED_STACK_UNKNOWN_CODE = 4, /* stopped at code without a table */
	SCHED_STACK_UNREADABLE = 8, /* stopped at memory that is not resident */
};

/* A stack that was not seen before. Its records refer to it by `id`; it comes before or after them. */
struct sched_stack {
	__u32 type;
	__u32 flags;
	__u64 id;
	__s32 tgid;
	__u16 kernel_frames, user_frames; /* kernel first, each leaf first */
	__u64 frames[SCHED_MAX_FRAMES];
};

enum sched_object_type {
	SCHED_OBJECT_NONE,
	SCHED_OBJECT_FILE, /* regular file, directory, block device */
	SCHED_OBJECT_PIPE,
	SCHED_OBJECT_SOCKET_INET,
	SCHED_OBJECT_SOCKET_INET6,
	SCHED_OBJECT_SOCKET_UNIX,
	SCHED_OBJECT_SOCKET_OTHER,
	SCHED_OBJECT_ANONYMOUS, /* eventfd, timerfd, epoll, … */
	SCHED_OBJECT_DEVICE, /* character device, terminal */
};

/* What the descriptor in the first argument of the system call refers to. */
struct sched_object {
	__u32 type;
	__s32 fd;
	__u64 device; /* as the kernel numbers it (new_encode_dev of s_dev) */
	__u64 inode;
	__u16 local_port, peer_port; /* host order */
	__u8 peer[16]; /* address in network order, IPv4 in the first four bytes; a Unix socket's peer: its inode */
	char name[28]; /* last component of a file's path; a Unix socket's bound address */
};

enum sched_waker_context {
	SCHED_WAKER_NONE, /* not seen */
	SCHED_WAKER_TASK,
	SCHED_WAKER_OTHER_TASK, /* a thread outside of the application; its name is in waker_comm */
	SCHED_WAKER_INTERRUPT, /* a device, a timer, the network */
};

/* A thread was blocked and is active again. */
struct sched_wait {
	__u32 type;
	__u32 task;
	__u64 begin, end;
	__u64 idle; /* of it, time in which no thread of the application was active and that this wake-up ended */
	/* The slice before it. */
	__u64 slice_begin; /* it ended at `begin` */
	__u64 slice_runnable_ns;
	__u64 slice_criticality; /* fixed point */
	__u32 n; /* active threads just after it blocked */
	__u32 application;
	__u32 chance; /* it was described with this chance, of 2^32; 0: for certain, above all because it was long */
	__u32 holder; /* task number of the owner */
	__u64 stack;
	/* What it was for, from the registers that it entered the kernel with. */
	__s64 system_call; /* -1: none (a fault or an interrupt), -2: not known (blocked before the recording), -3: the flow agent's */
	__u64 arguments[4];
	__u64 user_ip;
	struct sched_object object;
	__u32 futex_word; /* value of the futex when it blocked */
	__s32 owner_tid; /* what the lock's memory says of its owner, in the thread's own pid namespace; 0: unknown */
	__u32 waker;
	__u32 waker_context;
	__u64 holder_stack; /* at its first event or sample after the wait began; 0 if it had none */
	__u64 waker_stack;
	/* Fixed point: criticality that they gained meanwhile at low parallelism; the holder's also without a CPU. */
	__u64 holder_gain, waker_gain;
	__u32 call; /* the system call whose exact time holds it, or SYSTEM_CALL_NONE; SYSTEM_CALL_UNKNOWN if they aren't counted */
	__u32 held; /* it was stopped or traced: not what the system call waits for */
	char waker_comm[16];
};

/* Short waits of a thread that were not told one by one, since its last such record, and the slices before them. */
struct sched_brief {
	__u32 type;
	__u32 task;
	__u64 begin, end; /* of the first slice, of the last wait */
	__u64 count;
	__u64 low; /* of them, those after which fewer threads were active than are worth a stack */
	__u64 ns, idle; /* of the waits, as in sched_wait */
	__u64 active_ns, runnable_ns, criticality; /* of the slices */
};

/* A timer's sample of a running thread, or what stands for the time in which one was queued. */
struct sched_sample {
	__u32 type;
	__u32 task;
	__u64 time;
	__u64 criticality; /* fixed point: gained since this thread's last sample */
	__u64 active_ns; /* likewise */
	__u64 stack;
	__u64 user_ip;
	__u32 n;
	__u32 in_kernel;
	__u32 call; /* as in sched_wait */
	__u32 period; /* what the sample stands for: ns since the CPU's last one, or of the event */
	__u32 queued; /* no timer's: the thread had mostly waited for a CPU since its last sample, with this stack */
	__u32 unused;
};

/* A thread lost its CPU, could have gone on, and got one again. */
struct sched_preempted {
	__u32 type;
	__u32 task;
	__u64 begin, end;
	__u64 stack; /* where it lost it */
	__u32 call; /* as in sched_wait */
	__u32 unused;
};

/* Unwinding met an address that no table covers: the process may have mapped something new. */
struct sched_unknown_code {
	__u32 type;
	__s32 tgid;
	__u64 address;
};

/* What could not be kept. Criticality itself is never lost but for `threads`. */
struct sched_lost {
	__u64 threads; /* more than SCHED_MAX_THREADS at once: not followed */
	__u64 applications; /* processes beyond SCHED_MAX_APPLICATIONS count with the first */
	__u64 waits, samples, stacks, tasks; /* the ring buffer was full; sums of brief waits wait for room */
	__u64 published; /* samples without weight: the clock was being changed */
	__u64 unpublished; /* threads without a record in the pages that the flow agent reads: no room there */
};

/* What a run over all threads is to do. */
enum sched_request {
	SCHED_REQUEST_NOTHING,
	SCHED_REQUEST_FOLLOW, /* from now on, those that are wanted */
	SCHED_REQUEST_AUDIT, /* compare what is counted with what is */
};

/* What it found. */
struct sched_audit {
	__u64 followed; /* threads */
	__u64 active; /* of them, by the scheduler's own word */
	__u64 strays; /* counted otherwise, this time and the last, without any event between: drift; they are mended */
};

#endif
