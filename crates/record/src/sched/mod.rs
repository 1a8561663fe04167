//! Scheduler events: the collector in the kernel, from loading to tables.

mod collection;
mod recording;
mod session;

pub use recording::{Followed, SchedOptions, SchedRecording, allowed_processors};
pub use session::{SchedRecorded, SchedSession, SchedTarget, record, record_with_flows};
