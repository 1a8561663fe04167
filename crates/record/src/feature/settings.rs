use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use transect_profile_model::{Dependence, Profile, RegionMethod};

/// Whose features are timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeatureTarget {
    /// A program to start; recorded from its first instruction to the end of the launched process.
    Launch {
        /// Program and arguments.
        command: Vec<OsString>,
        /// Record its child processes too.
        follow: bool,
    },
    /// Running processes; left as they were found.
    Attach {
        /// Process ids.
        pids: Vec<i32>,
        /// How long; `None`: until they end, or until a signal ends the recording.
        duration: Option<Duration>,
    },
}

/// What a thread does whose ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// It waits: nothing is lost.
    #[default]
    Block,
    /// It counts the event as lost and goes on.
    Count,
}

/// What to record, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSettings {
    /// The program or process.
    pub target: FeatureTarget,
    /// The program with regions, where the command is another one that starts it; `None`: the command's own.
    pub program: Option<PathBuf>,
    /// How regions are observed; `None`: compiled-in events if the program has some and is launched, else probes.
    pub method: Option<RegionMethod>,
    /// Only sites of regions whose decision depends on one of these features are on; empty: of all.
    pub features: Vec<String>,
    /// Only these regions, by number as in `transect feature regions`; empty: all.
    pub regions: Vec<u32>,
    /// Only regions whose decision depends on a feature so, or more strongly.
    pub dependence: Dependence,
    /// A file that says which regions are on, and may change all through the recording: a line each, `feature NAME` or
    /// `region N`; empty: all. By probes only.
    pub selection: Option<PathBuf>,
    /// What a thread does whose ring is full.
    pub overflow: Overflow,
    /// Samples a second and thread, where regions are sampled.
    pub sample_hz: u32,
    /// Share of run time that events may take: sites so hot that it would be more are switched off, the hottest first.
    pub budget: f64,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
    /// Hash of the feature model that the program must have been built with, and where that was read.
    pub model: Option<(u64, String)>,
}

/// Default of [`FeatureSettings::budget`].
pub const DEFAULT_BUDGET: f64 = 0.03;
/// Default of [`FeatureSettings::sample_hz`].
pub const DEFAULT_SAMPLE_HZ: u32 = 997;

/// A finished recording.
#[derive(Debug)]
pub struct FeatureOutcome {
    /// What was recorded.
    pub profile: Profile,
    /// Exit status of the launched process as a shell gives it (signal N: 128 + N); `None` for a process that was attached
    /// to.
    pub status: Option<i32>,
}
