/*
 * Tables by file: code of a process that user space has not looked at yet, since it has just run another program or
 * loaded a library. What is mapped at an address is found in the process's own tree of mappings, without its lock: the
 * current thread asks, and if another one changes the tree meanwhile a walk at worst ends early.
 */
#ifndef TRANSECT_UNWIND_FILE_H
#define TRANSECT_UNWIND_FILE_H

#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "unwind_abi.h"

#define MAPPING_TREE_DEPTH 8
#define MAPPING_NODE_BYTES 256 /* size and alignment of a node */
#define MAPPING_NODE_WORDS (MAPPING_NODE_BYTES / 8)
#define MAPPING_NODE_LEAF 1 /* nodes of this type and below hold mappings, others hold nodes */
#define MAPPING_NODE_GAPS 3 /* a node that also tells of gaps */
#define MAPPING_EXECUTABLE 4

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_FILES);
	__type(key, struct unwind_file_key);
	__type(value, struct unwind_file);
} unwind_files SEC(".maps");

/* Kernels have called a file's time of change by different names. */
struct inode___with_timespec {
	struct timespec64 {
		__s64 tv_sec;
		long tv_nsec;
	} i_mtime;
} __attribute__((preserve_access_index));

struct inode___with_hidden_timespec { /* 6.6 to 6.10 */
	struct timespec64 __i_mtime;
} __attribute__((preserve_access_index));

struct inode___with_parts { /* since 6.11 */
	__s64 i_mtime_sec;
	__u32 i_mtime_nsec;
} __attribute__((preserve_access_index));

/* Room for what is read: on the stack it would be too much. */
struct unwind_file_search {
	struct unwind_file_key key;
	struct unwind_mapping found;
	__u64 entry, end, word;
	__u64 node[MAPPING_NODE_WORDS];
};

/* Reads a member of what the kernel has at `pointer` into the search's `word`. */
#define READ_MEMBER(search, pointer, member) \
	({ \
		(search)->word = 0; \
		bpf_core_read(&(search)->word, sizeof((pointer)->member), &(pointer)->member); \
		(search)->word; \
	})

static __always_inline void file_modified(struct unwind_file_search *search, struct inode *inode)
{
	struct inode___with_parts *parts = (void *)inode;
	struct inode___with_hidden_timespec *hidden = (void *)inode;
	struct inode___with_timespec *plain = (void *)inode;

	if (bpf_core_field_exists(parts->i_mtime_sec)) {
		search->key.modified = READ_MEMBER(search, parts, i_mtime_sec);
		search->key.modified_ns = READ_MEMBER(search, parts, i_mtime_nsec);
	} else if (bpf_core_field_exists(hidden->__i_mtime)) {
		search->key.modified = READ_MEMBER(search, hidden, __i_mtime.tv_sec);
		search->key.modified_ns = READ_MEMBER(search, hidden, __i_mtime.tv_nsec);
	} else {
		search->key.modified = READ_MEMBER(search, plain, i_mtime.tv_sec);
		search->key.modified_ns = READ_MEMBER(search, plain, i_mtime.tv_nsec);
	}
}

/* How far a node's pivots were compared with `pc`. */
struct mapping_pivots {
	struct unwind_file_search *search;
	__u64 pc;
	__u32 first, slot;
};

static long mapping_next_slot(__u32 i, void *data)
{
	struct mapping_pivots *at = data;

	if (at->search->node[(at->first + i) & (MAPPING_NODE_WORDS - 1)] >= at->pc)
		return 1;
	at->slot++;
	return 0;
}

/* Number of the slot for `pc` in a node with so many slots, its pivots from word `pivots` on. */
static __always_inline __u32 mapping_slot(struct unwind_file_search *search, __u32 pivots, __u32 count, __u64 pc)
{
	struct mapping_pivots at = { .search = search, .first = pivots, .pc = pc };

	bpf_loop(count, mapping_next_slot, &at, 0);
	return at.slot;
}

/* Goes one node down in the tree, from that in `entry`, on the way to `pc`. Returns whether `entry` is a node again. Not
 * static: see unwind.bpf.h. */
__noinline int mapping_below(struct unwind_file_search *search, __u64 pc)
{
	__u32 type, pivots, slots, slot;

	if (!search)
		return 0;
	type = search->entry >> 3 & 15;
	if (search->entry < 4096 || bpf_probe_read_kernel(search->node, MAPPING_NODE_BYTES,
							  (void *)(search->entry & ~(MAPPING_NODE_BYTES - 1ULL)))) {
		search->entry = 0;
		return 0;
	}
	if (type == MAPPING_NODE_GAPS) {
		pivots = bpf_core_field_offset(struct maple_arange_64, pivot) / 8;
		slots = bpf_core_field_offset(struct maple_arange_64, slot) / 8;
	} else {
		pivots = bpf_core_field_offset(struct maple_range_64, pivot) / 8;
		slots = bpf_core_field_offset(struct maple_range_64, slot) / 8;
	}
	slot = mapping_slot(search, pivots, slots - pivots, pc);
	search->entry = search->node[(slots + slot) & (MAPPING_NODE_WORDS - 1)];
	return type > MAPPING_NODE_LEAF;
}

/* Makes `entry` the mapping of the current process at `pc` or the next one above, 0 if there is none. */
static __always_inline void mapping_at(struct unwind_file_search *search, __u64 pc)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *memory = (void *)READ_MEMBER(search, task, mm);

	search->entry = READ_MEMBER(search, memory, mm_mt.ma_root);
	for (int depth = 0; depth < MAPPING_TREE_DEPTH; depth++)
		if (!mapping_below(search, pc))
			return;
	search->entry = 0;
}

/* Makes `found` the mapping at `pc` in the current process if its file has a table. Returns whether it is so. */
__noinline int unwind_find_file(struct unwind_file_search *search, __u64 pc)
{
	struct unwind_file *table;
	struct unwind_file_key key;
	struct vm_area_struct *area;
	struct inode *inode;
	struct file *file;
	struct super_block *system;

	if (!search)
		return 0;
	mapping_at(search, pc);
	area = (void *)search->entry;
	if (!area)
		return 0;
	search->found.start = READ_MEMBER(search, area, vm_start);
	search->end = READ_MEMBER(search, area, vm_end);
	if (pc < search->found.start || pc >= search->end || search->end - search->found.start > 0xffffffff)
		return 0;
	if (!(READ_MEMBER(search, area, vm_flags) & MAPPING_EXECUTABLE))
		return 0;
	file = (void *)READ_MEMBER(search, area, vm_file);
	inode = (void *)READ_MEMBER(search, file, f_inode);
	if (!inode)
		return 0;
	search->key.inode = READ_MEMBER(search, inode, i_ino);
	search->key.size = READ_MEMBER(search, inode, i_size);
	system = (void *)READ_MEMBER(search, inode, i_sb);
	search->key.device = READ_MEMBER(search, system, s_dev);
	file_modified(search, inode);
	/* Linux 6.1 takes no key from memory that such a function was given. */
	key = search->key;
	table = bpf_map_lookup_elem(&unwind_files, &key);
	if (!table)
		return 0;
	search->found.length = search->end - search->found.start;
	search->found.offset = (READ_MEMBER(search, area, vm_pgoff) << 12) + table->offset;
	search->found.index = table->index;
	search->found.groups = table->groups;
	return 1;
}

#endif
