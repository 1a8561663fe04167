//! Scheduler events: the collector in the kernel, from loading to tables.

mod address_space;
mod call_stack;
mod cause;
mod collected;
mod collection;
mod kernel_symbols;
mod kind;
mod mapped_file;
mod naming;
mod object;
mod perf_map;
mod place;
mod processes;
mod recording;
mod runs;
mod sample;
mod session;
mod spin;
mod stack_names;
mod task;
mod timeline;
mod wait_rows;

pub use collected::{Collected, Timeline};
pub use collection::{Collection, Totals};
pub use recording::{Followed, SchedOptions, SchedRecording, allowed_processors};
pub use session::{SchedRecorded, SchedSession, SchedTarget, record, record_with_flows};
