/*
 * A rate limiter for records that some other one can stand for: where threads share CPUs, what happens once to each of them
 * comes often to all. It adapts a scale, by which fewer records are made, to their number on each CPU.
 */
#ifndef TRANSECT_SCHED_RATE_H
#define TRANSECT_SCHED_RATE_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>

#define RATE_WINDOW 20000000 /* ns */
#define RATE_RECORDS 20 /* of a kind, of each CPU, in that time */
#define RATE_MOST (1ull << 16)
/* Scales are kept in parts of this. */
#define RATE_UNIT 256

/* What is limited. */
enum sched_rate_kind {
	RATE_QUEUED, /* time without a CPU; sched_queued.h */
	RATE_PREEMPTED, /* stacks of threads that lose their CPU; sched_preempted.h */
	RATE_KINDS,
};

/* Of a CPU. Programs that use it run with interrupts off. */
struct sched_rate {
	__u64 since; /* beginning of the window */
	__u64 records; /* in it */
	__u64 scale; /* 0 is not set yet: RATE_UNIT */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RATE_KINDS);
	__type(key, __u32);
	__type(value, struct sched_rate);
} sched_rates SEC(".maps");

SCHED_INLINE struct sched_rate *rate_of(__u32 kind)
{
	return bpf_map_lookup_elem(&sched_rates, &kind);
}

/* The scale now, at least RATE_UNIT: it follows the ratio of the records that there were to those that there may be, by a factor of
 * four at most at a time. */
__noinline __u64 rate_scale(struct sched_rate *rate, __u64 now)
{
	__u64 scale, length, ratio;

	if (!rate)
		return RATE_UNIT;
	scale = rate->scale > RATE_UNIT ? rate->scale : RATE_UNIT;
	length = now - rate->since;
	if (length < RATE_WINDOW && rate->records < 2 * RATE_RECORDS)
		return scale;
	if (length > 10ull * RATE_WINDOW)
		length = 10ull * RATE_WINDOW;
	ratio = (rate->records << 8) * RATE_WINDOW / RATE_RECORDS / (length + 1);
	scale = scale * (ratio < 64 ? 64 : ratio > 1024 ? 1024 : ratio) >> 8;
	scale = scale > RATE_MOST * RATE_UNIT ? RATE_MOST * RATE_UNIT : scale < RATE_UNIT ? RATE_UNIT : scale;
	rate->scale = scale;
	rate->since = now;
	rate->records = 0;
	return scale;
}

#endif
