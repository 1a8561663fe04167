/* A thread becomes active or blocks: the application's clock, the thread's state and what is published change as one. */
#ifndef TRANSECT_SCHED_ACTIVITY_H
#define TRANSECT_SCHED_ACTIVITY_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_state.h"

/* A number for one more application; the first one's if there are too many. */
SCHED_INLINE __u32 new_application(void)
{
	__u32 application = __sync_fetch_and_add(&last_application, 1) + 1;

	if (application < SCHED_MAX_APPLICATIONS)
		return application;
	__sync_fetch_and_add(&lost.applications, 1);
	return 0;
}

/* Under the application's lock: tells those who may not take it. */
SCHED_INLINE void publish(struct sched_published *pages, const struct sched_slot *slot, const struct sched_clock *clock,
			  int ended)
{
	__u32 application = slot->application, thread = slot->published;

	if (application < SCHED_MAX_APPLICATIONS)
		sched_publish_application(&pages->applications[application], clock);
	if (publish_threads && thread < SCHED_PUBLISHED_THREADS)
		sched_publish_thread(&pages->threads[thread], &slot->thread, clock, ended);
}

/* The clock of a thread's application at one instant, as it was published last. */
struct clock_reading {
	__u64 criticality;
	__u32 active;
};

/* False if it is being changed: it is read without the lock. */
static __always_inline bool read_clock(struct sched_slot *slot, __u64 now, struct clock_reading *reading)
{
	struct sched_published *pages = published_pages();
	struct sched_published_application *published;
	__u32 sequence, application = slot->application;

	if (!pages || application >= SCHED_MAX_APPLICATIONS)
		return false;
	published = &pages->applications[application];
	sequence = *(volatile __u32 *)&published->sequence;
	reading->active = published->active;
	reading->criticality = sched_extrapolate(published->time, published->criticality, reading->active, now);
	__asm__ volatile("" ::: "memory");
	return !(sequence & 1) && sequence == *(volatile __u32 *)&published->sequence;
}

/* The thread is active: it was woken, or runs. Says what changed. */
static __always_inline int activate(struct sched_slot *slot, __u64 now, struct sched_instant *instant)
{
	struct sched_application *application = application_of(slot);
	struct sched_published *pages = published_pages();

	if (!application || !pages)
		return 0;
	bpf_spin_lock(&application->lock);
	*instant = sched_activate(&application->clock, &slot->thread, now, cpus);
	publish(pages, slot, &application->clock, 0);
	bpf_spin_unlock(&application->lock);
	slot->stray = 0;
	return 1;
}

static __always_inline int block(struct sched_slot *slot, __u64 now, struct sched_instant *instant, int ended)
{
	struct sched_application *application = application_of(slot);
	struct sched_published *pages = published_pages();

	if (!application || !pages)
		return 0;
	bpf_spin_lock(&application->lock);
	*instant = sched_block(&application->clock, &slot->thread, now, cpus);
	publish(pages, slot, &application->clock, ended);
	bpf_spin_unlock(&application->lock);
	slot->stray = 0;
	return 1;
}

#endif
