/*
 * Tables for unwinding user stacks in the kernel: written by user space through shared memory, read by unwind.bpf.h.
 *
 * A process (by tgid) has an address space: a list of executable mappings, sorted by address, in `unwind_mappings`.
 * Processes with equal mappings share one list. A mapping points to the table of its object, which all processes
 * share: an index with one word per group of UNWIND_GROUP_BYTES of code, and rows, both in `unwind_words`. A row is a
 * word: where in its group a rule begins to hold (upper half) and the rule's number (lower half) in `unwind_rules`.
 *
 * Memory that is published is not changed; what is no longer used rests for seconds before it is used again.
 */
#ifndef TRANSECT_UNWIND_ABI_H
#define TRANSECT_UNWIND_ABI_H

#define UNWIND_WORDS (4608 * 1024) /* 18 MiB: index and rows of all objects */
#define UNWIND_MAPPINGS (128 * 1024) /* 3 MiB */
#define UNWIND_RULES 65536 /* 512 KiB */
#define UNWIND_CACHE_SLOTS 65536 /* 512 KiB */
#define UNWIND_BUCKET_SHIFT 12 /* 256 KiB: processes, by the low bits of the tgid */
#define UNWIND_BUCKETS (1 << UNWIND_BUCKET_SHIFT)
#define UNWIND_BUCKET_SLOTS 8 /* processes whose tgids have the same low bits */
#define UNWIND_FILES 2048 /* 300 KiB: files that have a table */
#define UNWIND_GROUP_SHIFT 10
#define UNWIND_GROUP_BYTES (1 << UNWIND_GROUP_SHIFT)

/* One address space packed into a word, so that it is read whole: UNWIND_SPACE_* say how many bits each part has. */
#define UNWIND_SPACE_FIRST_BITS 20 /* lowest: the entry of `unwind_mappings` before the list: its head */
#define UNWIND_SPACE_COUNT_BITS 12 /* mappings in the list */
#define UNWIND_SPACE_NUMBER_BITS 17 /* names the list for as long as anything may remember it; never 0 */
#define UNWIND_SPACE_OWNER_BITS 15 /* the process: its tgid above the bits that tell its bucket */

#define UNWIND_HEAD (1ull << 63) /* `start` of a list's head is this and the list's number while the list is in force */

/* An executable mapping. */
struct unwind_mapping {
	__u64 start; /* address */
	__u32 length; /* bytes */
	__u32 offset; /* of `start` in the object's table */
	__u32 index; /* number of the word of the object's first group, 0: no table */
	__u32 groups; /* the index has one word more: the end of the last group's rows */
};

struct unwind_word_pair {
	__u32 words[2];
};

/* Address spaces of processes. A slot is 0 or one process's; both sides fill empty slots by compare-and-swap. */
struct unwind_bucket {
	__u64 slots[UNWIND_BUCKET_SLOTS];
};

/* What a file is known by: if it is written again or replaced it is another one. */
struct unwind_file_key {
	__u64 inode, size;
	__s64 modified; /* seconds */
	__u32 modified_ns;
	__u32 device; /* major << 20 | minor */
};

/* A file's table, for mappings that no list tells of. */
struct unwind_file {
	__u32 index, groups; /* as in unwind_mapping */
	__u32 offset; /* add the offset in the file for that in the table; wraps round */
	__u32 reserved;
};

/* What a rule is made of. `offset` is its upper half, signed; below it, from the lowest byte: kind, bp, bx, bx_base. */
enum unwind_rule_kind {
	UNWIND_NOT_MAPPED, /* no mapping known: never in a table */
	UNWIND_FRAME_POINTER, /* nothing known of this code: try the frame pointer */
	UNWIND_END, /* the call chain ends here */
	UNWIND_UNSUPPORTED, /* a rule that is not modelled */
	UNWIND_CFA_SP, /* CFA = rsp + offset, as all below; the return address is at CFA - 8 */
	UNWIND_CFA_BP, /* rbp + offset */
	UNWIND_CFA_BX, /* rbx + offset */
	UNWIND_CFA_AT_SP, /* *(rsp + low 24 bits of offset, signed) + upper 8 bits */
	UNWIND_CFA_AT_BP, /* *(rbp + …) + … */
	UNWIND_CFA_PLT, /* rsp + 8, 8 more if rip & 15 >= offset */
	UNWIND_SIGNAL, /* rsp points to the context that the kernel saved for a signal handler */
	UNWIND_RETURN_IN_BX, /* the return address is at rbx + offset, rsp remains as it is */
	UNWIND_OTHER_STACK, /* as UNWIND_CFA_BP; the caller is on another stack, which may lie below */
};
/* Rules that every table knows by their numbers. */
#define UNWIND_RULES_FIXED 4 /* kinds 0 … 3 are rules of their own numbers */

/* Where the caller's rbp and rbx are: */
#define UNWIND_SAVED_SAME 0 /* unchanged; 1 … 253: saved at base - 8 * n */
#define UNWIND_SAVED_AT_BASE 254 /* saved at base */
#define UNWIND_SAVED_UNKNOWN 255
/* and the base that rbx's place goes by (rbp's: the CFA; with UNWIND_SAVED_AT_BASE rbp). */
#define UNWIND_BASE_CFA 0
#define UNWIND_BASE_BP 1
#define UNWIND_BASE_BX 2 /* base + 8 * n */

#endif
