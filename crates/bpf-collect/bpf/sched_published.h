/*
 * What the programs in the kernel publish to the profiled program while it runs: one BPF array of one element, made
 * with BPF_F_MMAPABLE, whose pages the flow agent maps read-only. The agent's side is event-abi's `published`; a test
 * of this crate holds the two layouts equal.
 *
 * Writers call the functions below while they hold the clock's lock: one writer at a time for an application and its
 * threads. Readers take no lock: `sequence` is odd while its record changes.
 */
#ifndef TRANSECT_SCHED_PUBLISHED_H
#define TRANSECT_SCHED_PUBLISHED_H

#include "sched_state.h"

#define SCHED_PUBLISHED_THREADS_LOG2 15
#define SCHED_PUBLISHED_THREADS (1u << SCHED_PUBLISHED_THREADS_LOG2) /* published at once; more are counted as lost */
#define SCHED_PUBLISHED_PROBES 16 /* places where a thread's record may be: sched_published_place() */
#define SCHED_PUBLISHED_NEAR_PROBES 12 /* the first of them, in one window */
#define SCHED_PUBLISHED_WINDOW 1024u /* records that the agent maps at once */
#define SCHED_PUBLISHED_WINDOWS (SCHED_PUBLISHED_THREADS / SCHED_PUBLISHED_WINDOW)
#define SCHED_PUBLISHED_STRIDE 67 /* from one place to the next in a window: other processes' ids are as dense */
#define SCHED_PUBLISHED_WINDOW_STRIDE 5 /* from one window to the next */
#define SCHED_PUBLISHED_NONE 0xffffffffu /* no record */

/* An application: one cache line. */
struct sched_published_application {
	__u32 sequence;
	__u32 active; /* threads */
	__u64 time; /* of the last change, CLOCK_MONOTONIC ns */
	__u64 criticality; /* fixed point: the integral of dt / active while active > 0 */
	__u64 idle; /* ns with active = 0 */
	__u64 reserved[4];
};

/* A thread: one cache line. Found by its key; what it holds is kept after the thread's end until the place is taken
 * again. */
struct sched_published_thread {
	__u64 key; /* sched_published_key(); 0: free */
	__u32 sequence;
	__u32 flags; /* SCHED_PUBLISHED_ACTIVE, SCHED_PUBLISHED_ENDED */
	__u32 task; /* task number */
	__u32 application; /* index in `applications` */
	__u64 gained; /* fixed point: criticality of the slices that have ended */
	__u64 since; /* the application's criticality when the open slice began */
	__u64 time; /* of this record's last change, CLOCK_MONOTONIC ns */
	__u64 attribution; /* fixed point, at `time`: the application's criticality plus its idle time */
	__u64 reserved;
};

enum sched_published_flags {
	SCHED_PUBLISHED_ACTIVE = 1, /* a slice is open */
	SCHED_PUBLISHED_ENDED = 2, /* the thread is gone; the rest is final */
};

struct sched_published {
	struct sched_published_application applications[SCHED_MAX_APPLICATIONS];
	struct sched_published_thread threads[SCHED_PUBLISHED_THREADS];
};

#define SCHED_STORE(to, value) (*(volatile __typeof__(to) *)&(to) = (value))
#define SCHED_ORDER() __asm__ volatile("" ::: "memory") /* x86 keeps the order of stores; so does the translator */

/* Names a thread as it knows itself: number of its own pid namespace (`ns.inum` of the one its pid is in) and the
 * thread id there. */
SCHED_INLINE __u64 sched_published_key(__u32 pid_namespace, __u32 ns_tid)
{
	return (__u64)pid_namespace << 32 | ns_tid;
}

/* Index of the `probe`-th place where the record of a key may be. Ids that follow each other lie side by side, so that
 * one window serves most processes; the last places are in other windows. */
SCHED_INLINE __u32 sched_published_place(__u64 key, __u32 probe)
{
	__u32 start = (__u32)key + (((__u32)(key >> 32) * 2654435761u) >> (32 - SCHED_PUBLISHED_THREADS_LOG2));
	__u32 window = start / SCHED_PUBLISHED_WINDOW, offset = start % SCHED_PUBLISHED_WINDOW;

	if (probe < SCHED_PUBLISHED_NEAR_PROBES)
		offset = (offset + probe * SCHED_PUBLISHED_STRIDE) % SCHED_PUBLISHED_WINDOW;
	else
		window += (probe - SCHED_PUBLISHED_NEAR_PROBES + 1) * SCHED_PUBLISHED_WINDOW_STRIDE;
	return (window % SCHED_PUBLISHED_WINDOWS) * SCHED_PUBLISHED_WINDOW + offset;
}

/* The application's state as of its last change. */
SCHED_INLINE void sched_publish_application(struct sched_published_application *to, const struct sched_clock *clock)
{
	__u32 sequence = to->sequence;

	SCHED_STORE(to->sequence, sequence + 1);
	SCHED_ORDER();
	SCHED_STORE(to->active, clock->active);
	SCHED_STORE(to->time, clock->time);
	SCHED_STORE(to->criticality, clock->criticality);
	SCHED_STORE(to->idle, clock->idle);
	SCHED_ORDER();
	SCHED_STORE(to->sequence, sequence + 2);
}

/* The thread's, after it became active, blocked or ended. */
SCHED_INLINE void sched_publish_thread(struct sched_published_thread *to, const struct sched_thread *thread,
				       const struct sched_clock *clock, int ended)
{
	__u32 sequence = to->sequence;

	SCHED_STORE(to->sequence, sequence + 1);
	SCHED_ORDER();
	SCHED_STORE(to->flags, (thread->active ? SCHED_PUBLISHED_ACTIVE : 0) | (ended ? SCHED_PUBLISHED_ENDED : 0));
	SCHED_STORE(to->gained, thread->gained);
	SCHED_STORE(to->since, thread->since);
	SCHED_STORE(to->time, clock->time);
	SCHED_STORE(to->attribution, clock->criticality + (clock->idle << SCHED_FRACTION_BITS));
	SCHED_ORDER();
	SCHED_STORE(to->sequence, sequence + 2);
}

/* Takes a record for a thread that begins (before it runs), or that has another thread id since exec; returns its index.
 * Needs no lock. */
SCHED_INLINE __u32 sched_published_claim(struct sched_published *in, __u64 key, __u32 task, __u32 application)
{
	__u32 i;

	for (i = 0; i < SCHED_PUBLISHED_PROBES; i++) {
		__u32 index = sched_published_place(key, i);

		/* Linux 6.1 loses the bounds of both parts where they are put together: it is to see one mask of the whole. */
		__asm__ volatile("" : "+r"(index));
		index &= SCHED_PUBLISHED_THREADS - 1;
		struct sched_published_thread *at = &in->threads[index];

		if (__sync_val_compare_and_swap(&at->key, 0, key) == 0) {
			SCHED_STORE(at->task, task);
			SCHED_STORE(at->application, application);
			return index;
		}
	}
	return SCHED_PUBLISHED_NONE;
}

/* Gives the record of an ended thread, or of a thread id that is no longer its own, free. */
SCHED_INLINE void sched_published_release(struct sched_published *in, __u32 index)
{
	if (index < SCHED_PUBLISHED_THREADS)
		SCHED_STORE(in->threads[index].key, 0);
}

#endif
