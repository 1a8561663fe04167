//! How to walk.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use transect_profile_model::{KernelTiming, Metric};

use super::sample_rate::SampleRate;
use crate::sched::SchedOptions;

/// What is walked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkTarget {
    /// A program that is launched: its arguments begin with itself.
    Launch(Vec<OsString>),
    /// A process that runs already.
    Running(i32),
}

/// Which halves of the call graph are walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WalkSpace {
    /// Program and kernel.
    #[default]
    Both,
    /// The program; a chain ends where it enters the kernel.
    User,
    /// Both are shown, but functions of the program are not timed.
    Kernel,
}

/// How to walk.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkSettings {
    /// Through what.
    pub target: WalkTarget,
    /// End after this time at the latest.
    pub duration: Option<Duration>,
    /// What shares are shares of.
    pub metric: Metric,
    /// A function is followed if at least this share of its group's time is in it, 0.0–1.0.
    pub threshold: f64,
    /// Length of one step.
    pub window: Duration,
    /// Only this thread group.
    pub thread_group: Option<String>,
    /// Probes allowed at once.
    pub max_probes: u32,
    /// Which halves.
    pub space: WalkSpace,
    /// Functions are timed by probes at all.
    pub probes: bool,
    /// Threads count by their criticality.
    pub critical: bool,
    /// Tables of criticality are made of the same recording, as these options have it.
    pub beside: Option<SchedOptions>,
    /// How often CPUs are sampled.
    pub sample_rate: SampleRate,
    /// How functions of the kernel are to be timed; `None`: the best that the kernel allows.
    pub kernel_timing: Option<KernelTiming>,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
    /// Files and folders that will be written afterwards: kept writable when privileges are dropped.
    pub writes: Vec<PathBuf>,
}

impl WalkSettings {
    /// Others than the walk count the samples, or they are of events that come as they do.
    pub(super) fn counts_samples(&self) -> bool {
        self.beside.is_some() || !self.metric.is_time()
    }

    /// Samples a second and CPU at first.
    pub(super) fn first_hz(&self) -> u32 {
        self.sample_rate.first_hz(&self.target, self.counts_samples())
    }
}
