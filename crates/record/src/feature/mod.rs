//! Time per feature: regions of code that run because of features, as `transect-cc` has marked them.
//!
//! Begins and ends of regions become events in rings of shared memory, one for each thread; written by calls that are
//! compiled in, by probes at sites that are switched on in the running program, or by programs in the kernel. A thread of
//! ours empties the rings all the time and folds the events into one tree of region stacks per thread: exact counts, exact
//! times, and memory that doesn't grow with the run.

mod assemble;
pub(crate) mod attached;
mod budget;
mod catalog;
mod choice;
mod clocks;
mod event_cost;
mod event_folder;
mod fold;
mod incomplete_slot;
mod kernel_events;
mod launched;
mod on_cpu_state;
pub(crate) mod pid_namespace_map;
pub(crate) mod probe_recording;
mod probed;
mod rate_limiter;
mod reader;
mod reading;
#[allow(unsafe_code)]
mod region_file;
mod region_spans;
mod running;
mod sampling;
mod selection;
mod session;
mod settings;
mod spent;
mod task_events;
pub(crate) mod task_list;
mod thread_number;
mod unknown_tasks;
mod unprobed_regions;
mod usdt;
pub(crate) mod with_flows;

#[cfg(feature = "fuzzing")]
pub use reading::fuzz as fuzz_rings;
pub(crate) use running::commands;
pub use session::record;
pub use settings::{DEFAULT_BUDGET, DEFAULT_SAMPLE_HZ, FeatureOutcome, FeatureSettings, FeatureTarget, Overflow};
