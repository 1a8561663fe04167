/* What the programs that watch region sites hand to user space. */
#ifndef TRANSECT_REGION_EVENTS_ABI_H
#define TRANSECT_REGION_EVENTS_ABI_H

/* In the two highest bits of `what`: a site's kind, as in the rings that programs write themselves. */
#define REGION_KIND_SHIFT 62
/* No site: below the kind a REGION_TASK_ value. */
#define REGION_KIND_TASK 3

enum region_task {
	REGION_TASK_FORKED = 1, /* a process; `stack` is its parent, `tid` the thread that forked it */
	REGION_TASK_THREAD = 2, /* a thread of a process that is known */
	REGION_TASK_REPLACED = 3, /* the process runs another program */
	REGION_TASK_THREAD_ENDED = 4,
	REGION_TASK_PROCESS_ENDED = 5, /* with its last thread */
	REGION_TASK_LOADED = 6, /* the loader has changed what is mapped, or is about to */
};

struct region_event {
	__u64 time; /* ns of CLOCK_MONOTONIC */
	__u64 what; /* kind and address of the site */
	__u64 stack; /* stack pointer at the site */
	__s32 tgid, tid; /* as the recorder's pid namespace numbers them */
};

/* Set before loading. */
struct region_settings {
	__u32 recorder_namespace; /* number of the pid namespace that user space lives in */
	__u32 initial; /* that is the initial one */
	__u32 follow; /* children, too */
};

struct region_counts {
	__u64 lost; /* events without room */
};

#endif
