/* What the function timer's programs and user space share. */
#ifndef TRANSECT_FUNCTION_TIME_H
#define TRANSECT_FUNCTION_TIME_H

#include "kernel_types.h"
#include "thread_clocks.h"

#define TIMED_FUNCTIONS 4
#define TIMED_RANGES 6 /* pieces of code of a caller: itself and its .cold part, or the wrappers of a system call */

struct code_range {
	__u64 begin, end;
};

struct timed_function {
	struct code_range caller[TIMED_RANGES]; /* whose return addresses count; not used of row 0 */
	struct code_range code; /* its own, to find it on stacks */
	__u32 parent; /* row */
	__u32 system_call; /* row 0 is this system call, if it is not TIMED_NO_SYSTEM_CALL */
	__u32 frame_offset; /* fentry, fexit: from the program's context to the return address on the stack; 0: not known yet */
	__u32 unused;
};

#define TIMED_NO_SYSTEM_CALL 0xffffffffu
#define TIMED_NO_OFFSET 0xffffffffu

struct timed_sum {
	__u64 calls; /* that counted and ended */
	__u64 hits; /* entries and returns that cost time, counted or not */
	struct thread_clocks time;
};

struct timed_call {
	__u32 depth; /* open calls that count, the function calling itself */
	__u32 known; /* whether it was open at the window's beginning is known */
	__u64 sp; /* stack pointer at entry */
	struct thread_clocks entered;
};

struct timed_sums {
	__u32 window;
	__u32 unused;
	struct timed_sum sums[TIMED_FUNCTIONS];
};

struct timed_thread {
	__u32 task;
	__u32 window;
	__u64 context; /* room to turn a pointer into a number */
	struct thread_clocks begin; /* when the window began */
	struct timed_call calls[TIMED_FUNCTIONS];
	struct timed_sums sums;
};

#endif
