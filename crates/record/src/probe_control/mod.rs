//! Probes of a running or launched program, switched and read by a user: `transect probe`.
//!
//! What was asked for is looked up first, in the files that the process has mapped; only then is the process touched.
//! Probes that were switched on stay on when the controller ends, and the next controller finds them again.

mod choice;
mod controlled;
mod row;
mod running;
mod semaphore;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

pub use row::{ProbeRow, ProbeState};
use transect_attach::StopTimes;

use crate::RecordError;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAction {
    /// Tell which sites there are. Nothing is changed in the process.
    List,
    /// Put probes on the functions and switch them on, to count calls.
    Enable,
    /// Switch probes off.
    Disable,
    /// Count calls for a time; then probes are as they were before.
    Count,
    /// Time calls for a time; then probes are as they were before.
    Time,
    /// Put all original bytes back.
    Detach,
}

/// Whose probes.
#[derive(Debug, Clone)]
pub enum ProbeTarget {
    /// A running process.
    Attach {
        /// Its pid.
        pid: i32,
        /// How long to count or time; `None`: until it ends, or a signal comes.
        duration: Option<Duration>,
    },
    /// A program to be started.
    Launch {
        /// Program and arguments.
        command: Vec<OsString>,
        /// Look for the functions in programs that it executes, too.
        follow: bool,
    },
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ProbeSettings {
    /// Whose probes.
    pub target: ProbeTarget,
    /// What to do.
    pub action: ProbeAction,
    /// Functions: `[component:]function[@source]`, names, globs or `/regular expressions/`, or `[component:]0xADDRESS`;
    /// USDT points: `[component:]provider:point`.
    /// None means all, where that is sensible (list, disable).
    pub patterns: Vec<String>,
    /// How often the rows so far are handed out while counting or timing.
    pub interval: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct ProbeOutcome {
    /// The probes asked for; those of several processes of one program added up.
    pub rows: Vec<ProbeRow>,
    /// For how long calls were counted, seconds.
    pub seconds: f64,
    /// Exit status of a launched program, as a shell gives it.
    pub status: Option<i32>,
    /// How long threads were held.
    pub stops: StopTimes,
    /// Sites whose original bytes were put back.
    pub restored: usize,
    /// Timed calls that were left by unwinding.
    pub abandoned: u64,
    /// Components that could not be looked into: path, reason.
    pub unreadable: Vec<(String, String)>,
    /// What could not be done while calls were counted, in words.
    pub troubles: BTreeSet<String>,
    /// Patterns that matched nothing in a launched program, in words.
    pub unmatched: Vec<String>,
}

/// Does it. `live` gets the rows so far and the seconds since the start, at every interval of counting and timing.
///
/// # Errors
/// Unknown or ambiguous functions, addresses inside of instructions ([`RecordError::Select`], [`RecordError::Point`]):
/// the process has not been touched then. Processes that can't be attached to, with the reason.
pub fn control(settings: &ProbeSettings, live: &mut dyn FnMut(&[ProbeRow], f64)) -> Result<ProbeOutcome, RecordError> {
    running::run(settings, live)
}
