//! Scheduler events: the collector in the kernel, from loading to tables.

pub(crate) mod address_space;
mod affinity;
mod brief;
pub(crate) mod call_stack;
pub(crate) mod cause;
mod collected;
mod collection;
pub(crate) mod kernel_symbols;
pub(crate) mod kind;
mod main_function;
pub(crate) mod mapped_file;
pub(crate) mod mapping_log;
pub(crate) mod naming;
pub(crate) mod object;
mod peer;
mod perf_map;
pub(crate) mod place;
pub(crate) mod processes;
mod recording;
mod runs;
mod sample;
mod session;
mod short_threads;
mod spin;
mod stack_names;
pub(crate) mod system_call_budget;
pub(crate) mod task;
mod timeline;
mod wait_rows;
mod watched;

pub use collected::{Collected, Timeline};
pub use collection::{Collection, Totals};
pub use recording::{Followed, SchedOptions, SchedRecording, allowed_processors};
pub(crate) use session::empty as empty_profile;
pub use session::{SchedRecorded, SchedSession, SchedTarget, record, record_with_flows};
pub(crate) use watched::{Keep, Watched};
