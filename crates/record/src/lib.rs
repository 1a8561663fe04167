//! Recording: launches a program under the agent, answers the agent's requests, and turns what it folded into a
//! [`Profile`].
//!
//! The recorder owns the memory the agent writes to; when the program ends, however it ends, everything up to its last
//! call is here. It never runs code of the program and needs no privilege.

mod api_data;
#[allow(unsafe_code)]
mod arena;
mod assemble;
mod attached_collector;
pub mod attached_flows;
mod attributed;
#[allow(unsafe_code)]
mod clock;
mod command_line;
mod component_rows;
mod displaced;
mod error;
pub mod executed_names;
mod extent;
pub mod feature;
mod flow_context;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod harvest;
pub mod latency;
mod launch;
mod lead;
mod liveness;
mod machine;
pub mod machine_time;
mod memory_kills;
mod names;
mod own_folder;
mod own_times;
mod plans;
pub mod probe_control;
pub mod probe_session;
mod process_cost;
#[allow(unsafe_code)]
mod process_start;
#[allow(unsafe_code)]
mod published;
mod queue_watch;
pub mod sampled_flows;
pub mod sched;
pub mod sched_estimate;
mod session;
mod signals;
mod snapshots;
mod static_components;
mod thread_ends;
mod thread_names;
mod thread_starts;
pub mod user_samples;
pub mod walk;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::RecordError;
pub use launch::{BeforeExec, BeforeExecAnywhere, find_agent};
pub use own_folder::clear_leftovers;
pub use signals::{hold_back, let_signals_end, survive_limits, take_snapshot_requests};
pub use snapshots::Snapshot;
pub use static_components::StaticError;
pub use transect_event_abi::process::LEAST_STACK;
use transect_profile_model::{Profile, Timing};

/// What to record, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Timing mode.
    pub timing: Timing,
    /// Take a histogram per flow.
    pub histogram: bool,
    /// Glob patterns of APIs whose calls are traced.
    pub trace: Vec<String>,
    /// Follow child processes.
    pub follow: bool,
    /// Record until the last descendant has ended, not only the launched process.
    pub wait_all: bool,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
    /// Files that extend the wait-API data.
    pub wait_apis: Vec<PathBuf>,
    /// File that names static components.
    pub static_components: Option<PathBuf>,
    /// Sample the latency of functions of the launched process, too; the target of these settings is not used.
    pub latency: Option<latency::LatencySettings>,
    /// The agent; `None`: beside the running executable or in `../lib/transect`.
    pub agent: Option<PathBuf>,
    /// Directory of the linkage-plan cache; `None`: the user's cache directory.
    pub plan_cache: Option<PathBuf>,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// What was recorded.
    pub profile: Profile,
    /// Exit status of the launched process as a shell gives it (signal N: 128 + N).
    pub exit_status: i32,
    /// Waits and slices that the scheduler's events tell, if they were recorded too: not in the profile, since there may
    /// be more of them than memory holds.
    pub timeline: Option<sched::Timeline>,
}

/// Runs the command to its end and returns its profile.
///
/// `snapshot` is called with the profile so far at every interval and on SIGUSR2 to this process.
///
/// # Errors
/// If the program can't be launched or profiled (statically linked, set-user-id, 32 bit, not found), the agent is
/// missing, or the recorder's memory can't be had. The program has not been started then.
pub fn record(options: &Options, snapshot: &mut dyn FnMut(&Profile)) -> Result<Recorded, RecordError> {
    record_with(options, OtherCollectors::default(), snapshot)
}

/// Collectors that run beside the agent.
#[derive(Default)]
pub struct OtherCollectors<'a> {
    /// Time per feature, too: each call is counted under the regions of features in which it was made. The settings' target
    /// is not used.
    pub features: Option<&'a feature::FeatureSettings>,
    /// Descriptor of the pages in which it publishes its clock of active threads (`event-abi`, module `published`). With
    /// them attributed time is exact, and flows have their criticality.
    pub published: Option<Arc<OwnedFd>>,
    /// Sample the program as far as a user without privileges may, or else estimate from its calls; rows that are too many for
    /// memory are put aside in files in this folder. Not together with `published`.
    pub user_samples: Option<PathBuf>,
    /// Called with the program's process id before it begins; an error keeps it from beginning.
    pub before_exec: Option<BeforeExecAnywhere<'a>>,
    /// Called when the program has ended and the profile is going to be made.
    pub ended: Option<&'a mut dyn FnMut()>,
}

/// As [`record`], with other collectors beside the agent. No thread has been started by this function when
/// `before_exec` is called, and the program, which is a process of its own by then, keeps the privileges that the
/// caller drops there.
///
/// # Errors
/// As for [`record`], and what `before_exec` returns.
pub fn record_with(
    options: &Options,
    beside: OtherCollectors<'_>,
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<Recorded, RecordError> {
    session::run(options, beside, clock::Clock::start(), snapshot)
}
