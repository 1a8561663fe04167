/*
 * Brief waits: describing a wait (registers, object, lock's owner, stack, record) takes longer than all else that a block
 * costs. While that takes more of a CPU than it may, a wait is described by chance, and those that are not add to
 * sums of their thread, so that counts and times stay exact. A described one stands for 1 / chance waits.
 *
 * The chance follows what describing took, and grows with the length that the thread's waits of this place had lately:
 * those that matter are described, and what turns out to be long is told anyway, with the last stack of its place. What is long grows
 * where long waits alone take several times what they may: with 80 threads in a queue each of 100,000 waits a second is long. Who holds a lock is
 * known at the beginning only, so where waits are long as a rule one that was not chosen has all but its stack, and that of its place.
 *
 * A wait where the thread has not been lately is described whatever the others cost: it may be the only one there, and long,
 * and then no other would have its stack. What that takes is bounded for each thread, so no thread's short waits cost another's.
 */
#ifndef TRANSECT_SCHED_BRIEF_H
#define TRANSECT_SCHED_BRIEF_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include "sched_maps.h"
#include "sched_place.h"

#define BRIEF_WINDOW 20000000 /* ns: the chance is set anew after this time, or when twice the budget is spent */
#define BRIEF_MOST 1000000 /* ns: a wait this long is told, whatever the chance was, ... */
#define BRIEF_PASSED 5 /* ... and one that is longer by up to BRIEF_MOST_SHIFT while that takes more than this factor of what it may */
#define BRIEF_MOST_SHIFT 6
#define BRIEF_UNIT_SHIFT 14 /* a wait expected to take 2^this ns has twice the chance of one of no length */
#define BRIEF_RECORD_COST 3000 /* ns: of a described wait's end, and of what user space does with its record till the report is there */
#define BRIEF_CERTAIN (1ull << 32)
#define BRIEF_NEW_PLACE 10000000 /* ns: a thread's waits at places without a stack are described this often, on average, */
#define BRIEF_NEW_PLACES 16 /* and so many of them at once */
#define BRIEF_LEAST (1ull << 17) /* one in 32,768 */

/* Of a CPU. Programs that use it run with interrupts off. */
struct wait_spending {
	__u64 since; /* beginning of the window */
	__u64 spent; /* ns in the window */
	__u64 chance; /* of a wait of no length, of 2^32; 0 is not set yet: certainty */
	__u64 random;
	__u64 longer; /* BRIEF_MOST, shifted by this, is long */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_spending);
} wait_spendings SEC(".maps");

static __always_inline struct wait_spending *own_spending(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wait_spendings, &zero);
}

/* Describing took this long. */
static __always_inline void spend(__u64 ns)
{
	struct wait_spending *spending = wait_budget ? own_spending() : 0;

	if (spending)
		spending->spent += ns;
}

/* The chance follows the ratio of what may be spent to what was, by a factor of four at most at a time. */
static __always_inline void set_chance(struct wait_spending *spending, __u64 length, __u64 now)
{
	__u64 may = length < 10ull * BRIEF_WINDOW ? length : 10ull * BRIEF_WINDOW;
	__u64 chance = spending->chance ? spending->chance : BRIEF_CERTAIN;

	may = may * wait_budget / 1000000000;
	if (spending->spent > BRIEF_PASSED * may)
		spending->longer += spending->longer < BRIEF_MOST_SHIFT;
	else if (spending->spent * 2 < BRIEF_PASSED * may)
		spending->longer -= spending->longer > 0;
	if (spending->spent * 4 <= may) {
		chance *= 4;
	} else {
		__u64 ratio = (may << 8) / spending->spent;

		chance = chance * (ratio > 64 ? ratio : 64) >> 8;
	}
	spending->chance = chance > BRIEF_CERTAIN ? BRIEF_CERTAIN : chance < BRIEF_LEAST ? BRIEF_LEAST : chance;
	spending->since = now;
	spending->spent = 0;
}

/* Where the thread waits, so that it remembers how long it did. Places may share what they remember: it is a guess. */
static __always_inline void find_habit(struct sched_slot *slot, __u64 ip, __u64 argument)
{
	__u64 key = (ip ^ argument * 0x9e3779b97f4a7c15ULL) * 0x9e3779b97f4a7c15ULL;

	slot->habit = key >> 61;
}

/* Whether the wait that begins now is at a place of which no stack is known, and the thread has room for one more such wait. */
static __always_inline bool is_new_place(struct sched_slot *slot, __u64 now)
{
	if (!with_stacks || has_place(slot) || slot->places_paid > now + (BRIEF_NEW_PLACES - 1) * (__u64)BRIEF_NEW_PLACE)
		return false;
	slot->places_paid = (slot->places_paid > now ? slot->places_paid : now) + BRIEF_NEW_PLACE;
	return true;
}

/* A wait this long, ns, is told, whatever its chance was: what the CPU that ends it says now. */
static __always_inline __u64 long_wait(void)
{
	struct wait_spending *spending = wait_budget ? own_spending() : 0;

	/* For the verifier: a bound of the shift. */
	return spending ? (__u64)BRIEF_MOST << (spending->longer & 7) : BRIEF_MOST;
}

/* Whether the wait that begins now, at the habit's place, is described; its chance goes into the record. */
static __always_inline bool choose_wait(struct sched_slot *slot, __u64 now)
{
	struct wait_spending *spending = wait_budget ? own_spending() : 0;
	__u64 random, chance, length;

	slot->wait.chance = 0;
	slot->new_place = 0;
	if (!spending)
		return true;
	length = now - spending->since;
	if (length >= BRIEF_WINDOW || spending->spent >= wait_budget / (500000000 / BRIEF_WINDOW))
		set_chance(spending, length, now);
	/* Somebody waits for what this thread holds: the stack tells where. */
	if (!spending->chance || spending->chance == BRIEF_CERTAIN || slot->stack_wanted)
		return true;
	if (is_new_place(slot, now)) {
		slot->new_place = 1;
		return true;
	}
	chance = spending->chance + spending->chance * (slot->habits[slot->habit & (WAIT_HABITS - 1)] >> BRIEF_UNIT_SHIFT);
	if (chance >= BRIEF_CERTAIN)
		return true;
	random = spending->random ^ now;
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	spending->random = random;
	slot->wait.chance = chance;
	return (__u32)(random >> 16) < chance;
}

/* Waits at the habit's place took so long lately, ns, or a little less. */
static __always_inline bool has_habit(const struct sched_slot *slot, __u64 ns)
{
	return slot->habits[slot->habit & (WAIT_HABITS - 1)] >= ns;
}

/* A wait is over: what the thread expects of the next one at this place. Goes up at once and down by and by. */
static __always_inline void learn_length(struct sched_slot *slot, __u64 ns)
{
	__u32 *length = &slot->habits[slot->habit & (WAIT_HABITS - 1)];
	__u32 last = ns < 0xffffffff ? ns : 0xffffffff;

	*length = last >= *length ? last : *length - ((*length - last) >> 2);
}

/* A wait that was not described is over, and was short. */
static __always_inline void add_brief(struct sched_slot *slot, __u64 now, __u64 idle)
{
	struct sched_brief *sums = &slot->brief;
	const struct sched_wait *wait = &slot->wait;

	if (!sums->count)
		sums->begin = wait->slice_begin;
	sums->end = now;
	sums->count++;
	sums->ns += now - wait->begin;
	sums->idle += idle;
	sums->active_ns += wait->begin - wait->slice_begin;
	sums->runnable_ns += wait->slice_runnable_ns;
	sums->criticality += wait->slice_criticality;
	if (wait->n < min_parallelism)
		sums->low++;
}

/* Tells the sums that there are, so that they come before what follows. Where there is no room they grow on. */
static __always_inline void tell_brief(struct sched_slot *slot)
{
	struct sched_brief *sums = &slot->brief;

	if (!sums->count)
		return;
	sums->type = SCHED_RECORD_BRIEF;
	sums->task = slot->task;
	if (!bpf_ringbuf_output(&records, sums, sizeof(*sums), BPF_RB_NO_WAKEUP))
		sums->count = sums->low = sums->ns = sums->idle = sums->active_ns = sums->runnable_ns = sums->criticality = 0;
}

#endif
