/*
 * Unwinds user stacks by the tables of unwind_abi.h: no frame pointers needed where code carries .eh_frame.
 *
 * Callee-saved rbp and rbx are not read frame by frame; the walk remembers where they were last saved and reads that
 * word if a rule needs it. So most frames cost one read: the return address.
 */
#ifndef TRANSECT_UNWIND_BPF_H
#define TRANSECT_UNWIND_BPF_H

#include <bpf/bpf_helpers.h>
#include "sched_abi.h"
#include "unwind_abi.h"
#include "unwind_file.h"

#define UNWIND_MAX_FRAMES 128 /* a power of two */
#define UNWIND_WINDOW_WORDS 128 /* likewise */
#define UNWIND_WINDOW_BELOW 48 /* bytes of a window below the word that it was read for: callee-saved registers */

/* One walk. Too large for the stack: the caller gives room in a per-CPU map, one for each context that may interrupt
 * another. */
struct unwind_walk {
	/* In: the leaf's registers. */
	__u64 ip, sp, bp, bx;
	__s32 tgid;
	__u32 max; /* frames wanted, at most UNWIND_MAX_FRAMES */
	/* Out. */
	__u32 flags; /* enum sched_stack_flags */
	__u32 count;
	__u64 hash; /* of the frames */
	__u64 unknown; /* first address that no mapping covers: user space should look again; 0: none */
	__u64 frames[UNWIND_MAX_FRAMES]; /* leaf first: its address, then return addresses */
	/* The walk's own. */
	__u64 bp_at, bx_at; /* where the register is saved, 0: nowhere, the value is at hand */
	__u64 space;
	struct unwind_mapping mapping; /* found last */
	__u32 exact; /* ip is where the frame runs, not where it returns to */
	__u32 guessed; /* ip comes from a frame pointer */
	__u32 by_file; /* the mapping is not from the process's list */
	struct unwind_file_search search;
	/* A piece of the stack: reading many words costs little more than reading one. */
	__u64 window_at; /* its address */
	__u64 window_bytes; /* how much of it was read */
	__u64 word; /* read last */
	__u64 window[UNWIND_WINDOW_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_WORDS / 2);
	__type(key, __u32);
	__type(value, struct unwind_word_pair);
} unwind_words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_MAPPINGS);
	__type(key, __u32);
	__type(value, struct unwind_mapping);
} unwind_mappings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_RULES);
	__type(key, __u32);
	__type(value, __u64);
} unwind_rules SEC(".maps");

/* Rules found lately. A slot is one word: 16 bits of rule number below the 48 bits of the mixed key that the slot's
 * own number does not tell. Mixing loses nothing, so a match is never by chance. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_CACHE_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} unwind_cache SEC(".maps");

/* Address spaces by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_BUCKETS);
	__type(key, __u32);
	__type(value, struct unwind_bucket);
} unwind_spaces SEC(".maps");

static __always_inline __u64 hash_frame(__u64 hash, __u64 frame)
{
	hash = (hash ^ frame) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

#define UNWIND_LOW(bits) ((1ull << (bits)) - 1)

static __always_inline __u32 unwind_space_first(__u64 space)
{
	return space & UNWIND_LOW(UNWIND_SPACE_FIRST_BITS);
}

static __always_inline __u32 unwind_space_count(__u64 space)
{
	return space >> UNWIND_SPACE_FIRST_BITS & UNWIND_LOW(UNWIND_SPACE_COUNT_BITS);
}

static __always_inline __u32 unwind_space_number(__u64 space)
{
	return space >> (UNWIND_SPACE_FIRST_BITS + UNWIND_SPACE_COUNT_BITS) & UNWIND_LOW(UNWIND_SPACE_NUMBER_BITS);
}

static __always_inline struct unwind_bucket *unwind_bucket_of(__u32 tgid)
{
	__u32 number = tgid & (UNWIND_BUCKETS - 1);
	return bpf_map_lookup_elem(&unwind_spaces, &number);
}

static __always_inline __u64 unwind_space_owner(__u32 tgid)
{
	return (__u64)tgid >> UNWIND_BUCKET_SHIFT << (64 - UNWIND_SPACE_OWNER_BITS);
}

static __always_inline bool unwind_space_is_of(__u64 space, __u32 tgid)
{
	return space && (space ^ unwind_space_owner(tgid)) >> (64 - UNWIND_SPACE_OWNER_BITS) == 0;
}

/* The address space of a process, 0 if user space has told none. */
static __always_inline __u64 unwind_space_of(__u32 tgid)
{
	struct unwind_bucket *bucket = unwind_bucket_of(tgid);
	if (!bucket)
		return 0;
	for (int i = 0; i < UNWIND_BUCKET_SLOTS; i++) {
		__u64 space = *(volatile __u64 *)&bucket->slots[i];
		if (unwind_space_is_of(space, tgid))
			return space;
	}
	return 0;
}

/* A process runs another program, or is gone: its mappings are void. */
__noinline int unwind_forget(__u32 tgid)
{
	struct unwind_bucket *bucket = unwind_bucket_of(tgid);
	if (!bucket)
		return 0;
	for (int i = 0; i < UNWIND_BUCKET_SLOTS; i++) {
		__u64 space = *(volatile __u64 *)&bucket->slots[i];
		if (unwind_space_is_of(space, tgid))
			__sync_val_compare_and_swap(&bucket->slots[i], space, 0);
	}
	return 0;
}

/* A process was made by fork: it has its parent's mappings until user space has seen it. */
__noinline int unwind_fork(__u32 parent_tgid, __u32 child_tgid)
{
	__u64 space = unwind_space_of(parent_tgid);
	struct unwind_bucket *bucket = unwind_bucket_of(child_tgid);
	if (!space || !bucket || parent_tgid == child_tgid)
		return 0;
	unwind_forget(child_tgid);
	space = (space & UNWIND_LOW(64 - UNWIND_SPACE_OWNER_BITS)) | unwind_space_owner(child_tgid);
	/* The swap is behind the loop: 6.1 refuses the code that clang makes of it inside. */
	__u64 *slot = 0;
	for (int i = 0; i < UNWIND_BUCKET_SLOTS; i++) {
		if (!bucket->slots[i])
			slot = &bucket->slots[i];
	}
	/* If another takes it first, the child's first unknown code tells user space. */
	if (slot)
		__sync_val_compare_and_swap(slot, 0, space);
	return 0;
}

static __always_inline __u32 unwind_word(__u32 number)
{
	__u32 pair = number >> 1;
	struct unwind_word_pair *found = bpf_map_lookup_elem(&unwind_words, &pair);
	return found ? found->words[number & 1] : 0;
}

/*
 * The functions that are not static: the verifier looks at each of them once, by itself, and not in every state of every
 * program that unwinds. They are given no null pointer, but it must see that they would bear one.
 */

/* What a search by halves has left. Its steps are a callback, which the verifier looks at twice or so; of a loop it would look
 * at each step. */
struct unwind_search_range {
	__u64 pc;
	__u32 low, high;
	__u32 wanted;
};

/* One step: without branches, as all that the verifier would follow both ways. User addresses are far less than 2^63. */
static long unwind_halve_mappings(__u32 i, void *data)
{
	struct unwind_search_range *range = data;
	__u32 middle = (range->low + range->high) >> 1;
	struct unwind_mapping *mapping = bpf_map_lookup_elem(&unwind_mappings, &middle);
	if (!mapping || middle == range->low)
		return 1;
	__u64 above = (range->pc - mapping->start) >> 63;
	barrier_var(above);
	range->low ^= (range->low ^ middle) & (__u32)(above - 1);
	range->high ^= (range->high ^ middle) & (__u32)-above;
	return 0;
}

/* Makes `walk->mapping` the one that holds `pc`. Returns whether there is one. */
__noinline int unwind_find_mapping(struct unwind_walk *walk, __u64 pc)
{
	if (!walk)
		return 0;
	__u32 first = unwind_space_first(walk->space);
	struct unwind_mapping *mapping = bpf_map_lookup_elem(&unwind_mappings, &first);
	/* A process made by fork may refer to a list that is not in force any more. */
	if (!mapping || mapping->start != (UNWIND_HEAD | unwind_space_number(walk->space)))
		return 0;
	/* low: the head of the list or a mapping that starts at pc or below; high: starts above pc or is the end */
	struct unwind_search_range range = { .pc = pc, .low = first, .high = first + unwind_space_count(walk->space) + 1 };
	bpf_loop(UNWIND_SPACE_COUNT_BITS + 1, unwind_halve_mappings, &range, 0);
	__u32 low = range.low;
	if (low == first)
		return 0;
	mapping = bpf_map_lookup_elem(&unwind_mappings, &low);
	if (!mapping)
		return 0;
	walk->mapping = *mapping;
	walk->by_file = 0;
	return pc - walk->mapping.start < walk->mapping.length;
}

/* One step, likewise. */
static long unwind_halve_rows(__u32 i, void *data)
{
	struct unwind_search_range *range = data;
	__u32 middle = (range->low + range->high) >> 1, pair = middle >> 1, above;
	struct unwind_word_pair *found = bpf_map_lookup_elem(&unwind_words, &pair);
	if (!found || middle == range->low)
		return 1;
	/* Both are of 16 bits. */
	above = range->wanted - ((__u32)(*(__u64 *)found->words >> (middle << 5 & 32)) >> 16);
	above >>= 31;
	barrier_var(above);
	range->low ^= (range->low ^ middle) & (above - 1);
	range->high ^= (range->high ^ middle) & -above;
	return 0;
}

/*
 * The rule of the last row that begins at `wanted` or below, be it the previous group's last: that one is at `low`; `high`
 * is behind the group's rows.
 */
__noinline __u32 unwind_find_row(__u32 low, __u32 high, __u32 wanted)
{
	struct unwind_search_range range = { .low = low, .high = high, .wanted = wanted };
	bpf_loop(UNWIND_GROUP_SHIFT + 2, unwind_halve_rows, &range, 0);
	return unwind_word(range.low) & 0xffff;
}

/* Number of the rule for `pc` by search. */
static __always_inline __u32 unwind_search(struct unwind_walk *walk, __u64 pc)
{
	if (pc - walk->mapping.start >= walk->mapping.length && !unwind_find_mapping(walk, pc)) {
		walk->by_file = unwind_find_file(&walk->search, pc);
		if (!walk->by_file) {
			walk->mapping.length = 0;
			return UNWIND_NOT_MAPPED;
		}
		walk->mapping = walk->search.found;
	}
	__u32 offset = pc - walk->mapping.start + walk->mapping.offset;
	__u32 group = offset >> UNWIND_GROUP_SHIFT;
	if (!walk->mapping.index || group >= walk->mapping.groups)
		return UNWIND_FRAME_POINTER;
	__u32 low = unwind_word(walk->mapping.index + group);
	__u32 high = unwind_word(walk->mapping.index + group + 1);
	__u32 wanted = offset & (UNWIND_GROUP_BYTES - 1);
	return unwind_find_row(low - 1, high, wanted);
}

static __always_inline __u32 unwind_rule_number(struct unwind_walk *walk, __u64 pc)
{
	__u64 key = (pc & UNWIND_LOW(47)) | (__u64)unwind_space_number(walk->space) << 47;
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15ull;
	key ^= key >> 29;
	__u32 slot = key & (UNWIND_CACHE_SLOTS - 1);
	__u64 *cached = bpf_map_lookup_elem(&unwind_cache, &slot);
	if (!cached)
		return UNWIND_NOT_MAPPED;
	__u64 value = *(volatile __u64 *)cached;
	if (value >> 16 == key >> 16)
		return value & 0xffff;
	__u32 rule = unwind_search(walk, pc);
	if (rule != UNWIND_NOT_MAPPED && !walk->by_file)
		*(volatile __u64 *)cached = (key & ~0xffffull) | (rule & 0xffff);
	return rule;
}

#define UNWIND_PAGE_BYTES 4096

/* Reads the word at `at` with the words about it, of the same page: others may not be resident. */
__noinline int unwind_read_window(struct unwind_walk *walk, __u64 at)
{
	if (!walk)
		return -1;
	__u64 below = at & (UNWIND_PAGE_BYTES - 1);
	__u64 from = at - (below < UNWIND_WINDOW_BELOW ? 0 : UNWIND_WINDOW_BELOW);
	__u32 bytes = UNWIND_PAGE_BYTES - (from & (UNWIND_PAGE_BYTES - 1));
	if (bytes > sizeof(walk->window))
		bytes = sizeof(walk->window);
	walk->window_bytes = 0;
	if (bytes < UNWIND_WINDOW_BELOW + 8) /* about to cross into the next page */
		return bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)at) ? -1 : 0;
	if (bpf_probe_read_user(walk->window, bytes, (void *)from))
		return -1;
	walk->window_at = from;
	walk->window_bytes = bytes;
	walk->word = walk->window[from == at ? 0 : UNWIND_WINDOW_BELOW / 8];
	return 0;
}

/* Reads a word of the stack into `walk->word`. Returns 0, or -1 if that cannot be done. */
static __always_inline int unwind_read(struct unwind_walk *walk, __u64 at)
{
	__u64 distance = at - walk->window_at;
	if (distance >= walk->window_bytes || distance & 7)
		return unwind_read_window(walk, at);
	walk->word = walk->window[distance >> 3 & (UNWIND_WINDOW_WORDS - 1)];
	return 0;
}

/* The frame's rbp: at hand or where it was saved. Returns 0, or -1 if that cannot be read. */
static __always_inline int unwind_load_bp(struct unwind_walk *walk)
{
	if (walk->bp_at) {
		if (unwind_read(walk, walk->bp_at))
			return -1;
		walk->bp = walk->word;
		walk->bp_at = 0;
	}
	return 0;
}

static __always_inline int unwind_load_bx(struct unwind_walk *walk)
{
	if (walk->bx_at) {
		if (unwind_read(walk, walk->bx_at))
			return -1;
		walk->bx = walk->word;
		walk->bx_at = 0;
	}
	return 0;
}

/* Ends the walk. */
static __always_inline long unwind_stop(struct unwind_walk *walk, __u32 flag)
{
	walk->flags |= flag;
	return 1;
}

/* The registers before a signal handler was called; rsp points to the handler's struct ucontext. */
static __always_inline long unwind_signal(struct unwind_walk *walk)
{
	__u64 saved[2]; /* rsp, rip */
	__u64 context = walk->sp;
	if (bpf_probe_read_user(saved, sizeof(saved), (void *)(context + 160)))
		return unwind_stop(walk, SCHED_STACK_UNREADABLE);
	walk->bp_at = context + 120;
	walk->bx_at = context + 128;
	walk->sp = saved[0];
	walk->ip = saved[1];
	walk->exact = 1;
	walk->guessed = 0;
	return 0;
}

/* mov $15, %rax; syscall: where signal handlers return to, in libraries that have no table for it */
#define UNWIND_RESTORER 0x0f0000000fc0c748ull

__noinline long unwind_by_frame_pointer(struct unwind_walk *walk, int known_code)
{
	if (!walk)
		return 1;
	__u64 words[2]; /* rbp, return address */
	if (!walk->exact && !bpf_probe_read_user(words, 8, (void *)walk->ip) && words[0] == UNWIND_RESTORER)
		return unwind_signal(walk);
	if (unwind_load_bp(walk))
		return unwind_stop(walk, SCHED_STACK_UNREADABLE);
	__u64 bp = walk->bp;
	if (!bp) /* how the ABI marks the outermost frame; but where rbp is no frame pointer zero says nothing */
		return unwind_stop(walk, known_code ? SCHED_STACK_COMPLETE : SCHED_STACK_UNKNOWN_CODE);
	if (bp < walk->sp || bp & 7)
		return unwind_stop(walk, SCHED_STACK_UNKNOWN_CODE);
	if (bpf_probe_read_user(words, sizeof(words), (void *)bp))
		return unwind_stop(walk, SCHED_STACK_UNREADABLE);
	walk->bp = words[0];
	walk->ip = words[1];
	walk->sp = bp + 16;
	walk->exact = 0;
	walk->guessed = 1;
	return walk->ip ? 0 : unwind_stop(walk, SCHED_STACK_COMPLETE);
}

/* One frame: adds it and makes the registers its caller's. Returns 1 at the end of the walk. */
__noinline long unwind_step(struct unwind_walk *walk)
{
	if (!walk)
		return 1;
	__u32 number = unwind_rule_number(walk, walk->ip - !walk->exact);
	if (number == UNWIND_NOT_MAPPED) {
		if (walk->guessed)
			return unwind_stop(walk, SCHED_STACK_UNKNOWN_CODE);
		if (!walk->unknown)
			walk->unknown = walk->ip;
	}
	walk->frames[walk->count & (UNWIND_MAX_FRAMES - 1)] = walk->ip;
	walk->hash = hash_frame(walk->hash, walk->ip);
	walk->count++;

	__u64 *found = bpf_map_lookup_elem(&unwind_rules, &number);
	if (!found)
		return unwind_stop(walk, SCHED_STACK_UNKNOWN_CODE);
	__u64 rule = *found;
	__s64 offset = (__s64)rule >> 32;
	__u8 kind = rule;
	__u64 sp = walk->sp, cfa, ra_at;
	switch (kind) {
	case UNWIND_CFA_SP:
		cfa = sp + offset;
		break;
	case UNWIND_CFA_BP:
		if (unwind_load_bp(walk))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		cfa = walk->bp + offset;
		break;
	case UNWIND_OTHER_STACK:
		if (unwind_load_bp(walk))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		if (!walk->bp) /* the other one is not to be resumed from here */
			return unwind_stop(walk, SCHED_STACK_COMPLETE);
		cfa = walk->bp + offset;
		/* The check below is of one stack. */
		sp = cfa - 8;
		break;
	case UNWIND_CFA_BX:
		if (unwind_load_bx(walk))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		cfa = walk->bx + offset;
		break;
	case UNWIND_CFA_PLT:
		cfa = sp + 8 + ((walk->ip & 15) >= offset ? 8 : 0);
		break;
	case UNWIND_CFA_AT_SP:
	case UNWIND_CFA_AT_BP: {
		__u64 at = sp;
		if (kind == UNWIND_CFA_AT_BP) {
			if (unwind_load_bp(walk))
				return unwind_stop(walk, SCHED_STACK_UNREADABLE);
			at = walk->bp;
		}
		at += (__s64)(rule << 8) >> 40;
		if (unwind_read(walk, at))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		cfa = walk->word + (rule >> 56);
		break;
	}
	case UNWIND_RETURN_IN_BX:
		if (unwind_load_bx(walk))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		cfa = sp;
		break;
	case UNWIND_SIGNAL:
		return unwind_signal(walk);
	case UNWIND_END:
		return unwind_stop(walk, SCHED_STACK_COMPLETE);
	case UNWIND_NOT_MAPPED:
	case UNWIND_FRAME_POINTER:
		return unwind_by_frame_pointer(walk, kind != UNWIND_NOT_MAPPED);
	default:
		return unwind_stop(walk, SCHED_STACK_UNKNOWN_CODE);
	}
	ra_at = cfa - 8;
	if (kind == UNWIND_RETURN_IN_BX)
		ra_at = walk->bx + offset;
	else if (cfa <= sp) /* stacks grow down: a rule that does not apply */
		return unwind_stop(walk, SCHED_STACK_UNKNOWN_CODE);
	if (unwind_read(walk, ra_at))
		return unwind_stop(walk, SCHED_STACK_UNREADABLE);
	walk->ip = walk->word;

	__u8 saved = rule >> 16;
	if (saved != UNWIND_SAVED_SAME) {
		__u8 base = rule >> 24;
		__u64 distance = saved == UNWIND_SAVED_AT_BASE ? 0 : saved * 8ull, at;
		if (base == UNWIND_BASE_CFA) {
			at = cfa - distance;
		} else if (base == UNWIND_BASE_BP) {
			if (unwind_load_bp(walk))
				return unwind_stop(walk, SCHED_STACK_UNREADABLE);
			at = walk->bp - distance;
		} else {
			if (unwind_load_bx(walk))
				return unwind_stop(walk, SCHED_STACK_UNREADABLE);
			at = walk->bx + distance;
		}
		walk->bx_at = saved == UNWIND_SAVED_UNKNOWN ? 1 : at;
	}
	saved = rule >> 8;
	if (saved == UNWIND_SAVED_AT_BASE) {
		if (unwind_load_bp(walk))
			return unwind_stop(walk, SCHED_STACK_UNREADABLE);
		walk->bp_at = walk->bp;
	} else if (saved != UNWIND_SAVED_SAME) {
		walk->bp_at = saved == UNWIND_SAVED_UNKNOWN ? 1 : cfa - saved * 8ull;
	}
	walk->sp = cfa;
	walk->exact = 0;
	walk->guessed = 0;
	return walk->ip ? 0 : unwind_stop(walk, SCHED_STACK_COMPLETE);
}

static long unwind_frame(__u32 i, void *data)
{
	/* A function that is verified by itself may return anything; a callback may not. */
	long end = unwind_step(*(struct unwind_walk **)data);
	barrier_var(end);
	return end & 1;
}

/*
 * Unwinds the stack of a thread of the current address space from the registers in `walk`.
 * Reads user memory without faulting: a page that is not resident ends the walk.
 */
static __always_inline void unwind_user(struct unwind_walk *walk)
{
	walk->count = 0;
	walk->flags = 0;
	walk->hash = 0;
	walk->unknown = 0;
	walk->bp_at = 0;
	walk->bx_at = 0;
	walk->exact = 1;
	walk->guessed = 0;
	walk->mapping.length = 0;
	walk->by_file = 0;
	walk->window_bytes = 0;
	walk->space = unwind_space_of(walk->tgid);
	__u32 max = walk->max;
	if (max > UNWIND_MAX_FRAMES)
		max = UNWIND_MAX_FRAMES;
	struct unwind_walk *data = walk;
	long steps = bpf_loop(max, unwind_frame, &data, 0);
	if (steps >= max && !(walk->flags & (SCHED_STACK_COMPLETE | SCHED_STACK_UNKNOWN_CODE | SCHED_STACK_UNREADABLE)))
		walk->flags |= SCHED_STACK_TRUNCATED;
}

#endif
