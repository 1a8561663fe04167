//! Time per feature: regions of code that run because of features, as `transect-cc` has marked them.
//!
//! Begins and ends of regions become events in rings of shared memory, one for each thread; written by calls that are
//! compiled in, by probes at sites that are switched on in the running program, or by programs in the kernel. A thread of
//! ours empties the rings all the time and folds the events into one tree of region stacks per thread: exact counts, exact
//! times, and memory that doesn't grow with the run.

mod assemble;
pub(crate) mod beside_flows;
mod budget;
mod catalog;
mod choice;
mod event_cost;
mod fold;
mod heat;
mod held_up;
mod kernel_events;
mod launched;
mod lives;
mod moment;
pub(crate) mod outer_number;
mod presence;
pub(crate) mod probe_recording;
mod probed;
mod reader;
mod reading;
#[allow(unsafe_code)]
mod region_file;
mod sampling;
mod selection;
mod session;
mod settings;
mod silent_regions;
mod spent;
mod stays;
mod strangers;
mod taker;
pub(crate) mod task_list;
mod thread_number;
mod usdt;

#[cfg(feature = "fuzzing")]
pub use reading::fuzz as fuzz_rings;
pub use session::record;
pub use settings::{DEFAULT_BUDGET, DEFAULT_SAMPLE_HZ, FeatureOutcome, FeatureSettings, FeatureTarget, Overflow};
