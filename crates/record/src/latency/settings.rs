use std::ffi::OsString;
use std::time::Duration;

use transect_profile_model::{LatencySampling, Metric, Profile};

use super::Unmatched;

/// Whose functions are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LatencyTarget {
    /// A program to start; measured from its first instruction to the end of the launched process.
    Launch {
        /// Program and arguments.
        command: Vec<OsString>,
        /// Measure its child processes too.
        follow: bool,
    },
    /// Running processes; left as they were found.
    Attach {
        /// Process ids.
        pids: Vec<i32>,
        /// How long; `None`: until they end, or until a signal ends the measurement.
        duration: Option<Duration>,
    },
}

/// What to measure, and at what cost.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySettings {
    /// The program or process.
    pub target: LatencyTarget,
    /// Globs (`*`, `?`) over function names as [`transect_profile_model::Latency`] has them: demangled, raw, or up to
    /// the parameter list. A function that any of them matches is measured; none: all functions.
    pub functions: Vec<String>,
    /// Globs over components: path, file name, or file name up to `.so`. None: all components.
    pub components: Vec<String>,
    /// Measure only functions that are on the stack's top in a one-second sample of the CPU time.
    pub hot: bool,
    /// Sample size per epoch, or the budget that steers it.
    pub sampling: LatencySampling,
    /// What calls are measured in.
    pub metric: Metric,
    /// Time between two switchings on.
    pub epoch: Duration,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
}

/// Default of [`LatencySettings::epoch`], the paper's.
pub const DEFAULT_EPOCH: Duration = Duration::from_millis(10);
/// Default of [`LatencySampling::Budget`]: share of run time.
pub const DEFAULT_BUDGET: f64 = 0.02;

/// A finished measurement.
#[derive(Debug)]
pub struct LatencyOutcome {
    /// What was measured.
    pub profile: Profile,
    /// Exit status of the launched process as a shell gives it (signal N: 128 + N); `None` for a process that was
    /// attached to.
    pub status: Option<i32>,
    /// What of ours had to stay in processes that go on, and why, in words.
    pub left_behind: Vec<String>,
    /// Globs that matched nothing in whatever was measured.
    pub unmatched: Unmatched,
    /// The launched program was ended by a signal before it had its probes: nothing of it was measured.
    pub ended_before: bool,
}
