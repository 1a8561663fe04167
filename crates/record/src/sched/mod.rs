//! Scheduler events: the collector in the kernel, from loading to tables.

pub(crate) mod address_space;
mod affinity;
mod agent_time;
mod brief;
mod broken_off;
pub(crate) mod call_stack;
pub(crate) mod cause;
mod collected;
pub(crate) mod collection;
mod entered_calls;
mod jit_dump;
mod jit_name;
pub(crate) mod kernel_symbols;
pub(crate) mod kind;
mod listening;
mod main_function;
pub(crate) mod mapped_file;
pub(crate) mod mapping_log;
pub(crate) mod module;
pub(crate) mod naming;
pub(crate) mod object;
mod peer;
mod perf_map;
pub(crate) mod place;
pub(crate) mod processes;
mod read_ahead;
mod recording;
mod runs;
pub(crate) mod sample;
mod session;
mod short_threads;
mod slowdown;
mod spin;
mod stack_instructions;
mod stack_names;
pub(crate) mod system_call_budget;
mod tail_call;
pub(crate) mod task;
pub(crate) mod timeline;
mod wait_rows;
mod watched;

pub use collected::{Collected, Timeline};
pub(crate) use collected::{StackFacts, process_row};
pub use collection::{Collection, Totals};
pub use recording::{Followed, LoadingRecording, SchedOptions, SchedRecording, allowed_cpus};
pub(crate) use session::empty as empty_profile;
pub use session::{SchedRecorded, SchedSession, SchedTarget, record, record_with_flows};
pub(crate) use watched::{Keep, Watched};

/// Reads any bytes as a just-in-time compiler's map.
#[cfg(feature = "fuzzing")]
pub fn fuzz_perf_map(bytes: &[u8]) {
    perf_map::PerfMap::fuzz(bytes);
}
