/*
 * Names of the kernel's functions by address, for those that stacks have: the kernel's whole table, which user space could
 * read instead, takes tens of milliseconds to print.
 */
#ifndef TRANSECT_KERNEL_NAMES_H
#define TRANSECT_KERNEL_NAMES_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>

#define NAMED_ADDRESSES 128 /* their lines fit into what one read gives */

/* Set by user space. */
__u64 named_addresses[NAMED_ADDRESSES] = {};
__u32 named_count = 0;

/* A line for each: `function+0xoffset/0xsize`, or the address if it is in no function. */
const char name_line[] = "%pS\n";

static long print_name(__u32 i, void *context)
{
	struct seq_file *sequence = *(struct seq_file **)context;
	__u64 address = named_addresses[i & (NAMED_ADDRESSES - 1)];

	return bpf_seq_printf(sequence, name_line, sizeof(name_line), &address, sizeof(address)) != 0;
}

static __always_inline void print_names(struct seq_file *sequence)
{
	bpf_loop(named_count, print_name, &sequence, 0);
}

#endif
