/* What one thread gained at low parallelism, or without a CPU, while another waited for it. */
#ifndef TRANSECT_SCHED_GAIN_H
#define TRANSECT_SCHED_GAIN_H

#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_state.h"

/* The thread's slice ends when the clock's low is this; it began when that was `since`. */
static __always_inline void mark_gain(struct sched_slot *slot, __u64 since, __u64 low)
{
	__u32 number = ++slot->slices, place, below;

	if (number == 1) {
		slot->marks[GAIN_MARKS - 1].low = since | 1;
		slot->marks[GAIN_MARKS - 1].gained = 0;
	}
	/* By how often two divides it: as many bits lie below its lowest one. Counted without branches, as all here that the
	 * verifier would follow both ways. */
	below = (number & -number) - 1;
	place = (below & 1) + (below >> 1 & 1) + (below >> 2 & 1) + (below >> 3 & 1) + (below >> 4 & 1) + (below >> 5 & 1) +
		(below >> 6 & 1);
	/* For the verifier: the compiler knows that it is less. */
	barrier_var(place);
	place &= GAIN_MARKS - 2;
	slot->marks[place].low = low | 1;
	slot->marks[place].gained = slot->thread.gained_low;
}

/* Part of `gained` in proportion to `part` of `span`, to a thousandth. */
SCHED_INLINE __u64 proportion(__u64 gained, __u64 part, __u64 span)
{
	__u64 unit = span >> 10;

	return unit ? (gained >> 10) * (part / unit) : 0;
}

/* All ones if `a` is less than `b`, else 0; of numbers that are less than 2^63 apart. */
SCHED_INLINE __u64 ones_if_less(__u64 a, __u64 b)
{
	__u64 ones = (__s64)(a - b) >> 63;

	/* The compiler would make a branch of it. */
	barrier_var(ones);
	return ones;
}

/* `mark` becomes `other` where `ones` are. */
SCHED_INLINE void take_mark(struct gain_mark *mark, const struct gain_mark *other, __u64 ones)
{
	mark->low ^= (mark->low ^ other->low) & ones;
	mark->gained ^= (mark->gained ^ other->gained) & ones;
}

#define NO_LOW (~0ULL >> 1)

/* What a thread had gained when its application's clock had that low: between two marks in proportion. A mark without low is
 * none: theirs are odd. Not static: see unwind.bpf.h. */
__noinline __u64 gained_at(struct sched_slot *slot, __u64 low)
{
	struct gain_mark before = {}, after;
	int i;

	if (!slot)
		return 0;
	after.low = slot->thread.since_low;
	after.gained = slot->thread.gained_low;
	if (!slot->thread.active)
		after.low = NO_LOW; /* its last slice's end is among the marks */
	else if (low >= after.low)
		return after.gained + (low - after.low);
	for (i = 0; i < GAIN_MARKS; i++) {
		struct gain_mark mark = slot->marks[i];
		__u64 later = ones_if_less(low, mark.low);

		take_mark(&before, &mark, ones_if_less(before.low, mark.low) & ~later);
		take_mark(&after, &mark, ones_if_less(mark.low, after.low) & later);
	}
	/* It began later. */
	if (!before.low)
		return 0;
	if (after.low == NO_LOW || after.gained <= before.gained)
		return before.gained;
	return before.gained + proportion(after.gained - before.gained, low - before.low, after.low - before.low);
}

/* The same since the wait of `slot` began, up to now, when the clock's low is `low`. Only clocks of one application can be
 * compared. */
static __always_inline __u64 gained_since_blocked(const struct sched_slot *slot, struct sched_slot *party, __u64 low)
{
	__u64 now, then;

	if (party->application != slot->application)
		return 0;
	now = sched_low(&party->thread, low);
	then = gained_at(party, slot->blocked_low);
	return now > then ? now - then : 0;
}

/* What the clock shows when it is `time`, as the thread sees it. */
static __always_inline void read_progress(const struct sched_thread *thread, __u64 time, __u64 criticality, __u64 low,
					  struct sched_progress *progress)
{
	progress->criticality = sched_criticality(thread, criticality);
	progress->low = sched_low(thread, low);
	progress->active_ns = sched_active_ns(thread, time);
	progress->running_ns = sched_running_ns(thread, time);
}

/* What a lock's holder gained between `then` and `now` at low parallelism, or without a CPU: whoever waits for it waits for a CPU
 * with it (priority inversion). Of what it gained at high parallelism, that is its part of the time. */
static __always_inline __u64 held_up_by(const struct sched_progress *then, const struct sched_progress *now)
{
	__u64 gained = now->criticality > then->criticality ? now->criticality - then->criticality : 0;
	__u64 low = now->low > then->low ? now->low - then->low : 0;
	__u64 active = now->active_ns > then->active_ns ? now->active_ns - then->active_ns : 0;
	__u64 running = now->running_ns > then->running_ns ? now->running_ns - then->running_ns : 0;

	if (gained <= low || active <= running)
		return low;
	return low + (running ? proportion(gained - low, active - running, active) : gained - low);
}

#endif
