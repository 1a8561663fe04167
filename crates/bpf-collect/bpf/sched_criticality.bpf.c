// Scheduler criticality: see the head of sched_state.h for the state machine.
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sched_abi.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Never used: names the records so that their layouts are in the object's type information. */
const struct sched_record_layouts {
	struct sched_task task;
	struct sched_stack stack;
	struct sched_wait wait;
	struct sched_sample sample;
	struct sched_unknown_code unknown_code;
} record_layouts = {};
