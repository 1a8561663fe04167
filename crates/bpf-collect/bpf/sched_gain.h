/* What one thread gained at low parallelism while another waited for it. */
#ifndef TRANSECT_SCHED_GAIN_H
#define TRANSECT_SCHED_GAIN_H

#include "sched_maps.h"
#include "sched_slot.h"
#include "sched_state.h"

/* The thread's slice ends when the clock's low is this; it began when that was `since`. */
static __always_inline void mark_gain(struct sched_slot *slot, __u64 since, __u64 low)
{
	__u32 number = ++slot->slices, place = 0;

	if (number == 1) {
		slot->marks[GAIN_MARKS - 1].low = since | 1;
		slot->marks[GAIN_MARKS - 1].gained = 0;
	}
	/* By how often two divides it. */
	place += !(number & 0x01);
	place += !(number & 0x03);
	place += !(number & 0x07);
	place += !(number & 0x0f);
	place += !(number & 0x1f);
	place += !(number & 0x3f);
	place += !(number & 0x7f);
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

/* What a thread had gained when its application's clock had that low: between two marks in proportion. A mark without low is
 * none: theirs are odd. */
static __noinline __u64 gained_at(const struct sched_slot *slot, __u64 low)
{
	struct gain_mark before = {}, after = { slot->thread.since_low, slot->thread.gained_low };
	int i;

	if (!slot->thread.active)
		after.low = ~0ULL; /* its last slice's end is among the marks */
	else if (low >= after.low)
		return after.gained + (low - after.low);
#pragma unroll
	for (i = 0; i < GAIN_MARKS; i++) {
		struct gain_mark mark = slot->marks[i];

		if (mark.low <= low) {
			if (mark.low > before.low)
				before = mark;
		} else if (mark.low < after.low) {
			after = mark;
		}
	}
	/* It began later. */
	if (!before.low)
		return 0;
	if (after.low == ~0ULL || after.gained <= before.gained)
		return before.gained;
	return before.gained + proportion(after.gained - before.gained, low - before.low, after.low - before.low);
}

/* The same since the wait of `slot` began, up to now, when the clock's low is `low`. Only clocks of one application can be
 * compared. */
static __always_inline __u64 gained_since_blocked(const struct sched_slot *slot, const struct sched_slot *party, __u64 low)
{
	__u64 now, then;

	if (party->application != slot->application)
		return 0;
	now = sched_low(&party->thread, low);
	then = gained_at(party, slot->blocked_low);
	return now > then ? now - then : 0;
}

#endif
